"""The client that all of the Kafka log's requests go through, beyond what the port shows."""

from __future__ import annotations

import asyncio
import gc
import warnings

from eventstore.config import KafkaConfig
from eventstore.kafka.client import ClusterClient, client_options

MOMENTS = 120


async def test_cancelled_start_leaves_no_connection(kafka_bootstrap: str, topic: str) -> None:
    """Cancelled at any moment of its first contact, it closes what it opened."""
    config = KafkaConfig(bootstrap_servers=kafka_bootstrap, topic=topic)
    options = client_options(config)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        for moment in range(MOMENTS):
            client = ClusterClient(config, options)
            starting = asyncio.create_task(client.start())
            for _ in range(moment * 4):
                await asyncio.sleep(0)
            starting.cancel()
            await asyncio.wait([starting])
            await client.close()
        gc.collect()
    assert [str(each.message) for each in caught if "nclosed" in str(each.message)] == []
