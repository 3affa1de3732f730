"""`docs/event-format.md` tells the truth: its example, and the ten lines that read the topic."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgpack
import pytest

from eventstore.body import BODIES
from tests.format_examples import EXAMPLES, golden
from tests.kafka_logs import config_for, opened
from tests.waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "event-format.md").read_text()


def test_every_event_type_is_described_with_its_fields() -> None:
    """Each type has its heading with the present version, and each field of it a place there."""
    sections = re.split(r"^### ", PAGE, flags=re.MULTILINE)
    described = {section.splitlines()[0]: section for section in sections}
    for body in BODIES.values():
        section = described[f"`{body.type_name}` {body.version}"]
        record = golden(f"{body.type_name}.v{body.version}")
        assert record.value is not None
        for name in msgpack.unpackb(record.value):
            assert f"`{name}`" in section, f"{body.type_name}: {name}"


def test_example_is_the_golden_record() -> None:
    """The bytes of the page are those that a test pins."""
    record = golden("log.started.v1")
    block = re.findall(r"^```\n(key .*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)[0]
    text, _, value = block.partition("value ")
    digits = "".join(re.findall(r"\b[0-9a-f]{2}\b", re.sub(r'"\w+"|16 bytes|of two', "", value)))
    assert bytes.fromhex(digits) == record.value
    assert (record.key or b"").decode() in text
    for name, content in record.headers:
        assert f"{name}={content.decode()}" in text


async def test_ten_lines_read_the_topic_without_us(kafka_bootstrap: str, topic: str) -> None:
    """Plain aiokafka, msgpack and zstandard show every event with its body, tombstones aside."""
    code = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    assert len([each for each in code.splitlines() if each]) == 10
    printed: list[tuple[Any, ...]] = []

    def show(*columns: Any) -> None:
        printed.append(columns)

    names: dict[str, Any] = {"print": show}
    exec(code, names)  # noqa: S102 - the page's own code is what is tested
    main: Callable[[str, str], Coroutine[Any, Any, None]] = names["main"]

    async with opened(config_for(kafka_bootstrap, topic)) as log:
        for new in EXAMPLES.values():
            await log.append(new, partition=0)
        await log.erase(0, [golden("thread.deleted.v1").key or b""])
        reading = asyncio.create_task(main(topic, kafka_bootstrap))
        await wait_until(
            lambda: reading.done() or len(printed) > len(EXAMPLES), description="all are printed"
        )
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    shown = {columns[2]: columns for columns in printed[1:]}
    assert [columns[2] for columns in printed[:1]] == ["log.started"]
    assert set(shown) == {body.type_name for body in BODIES.values()}
    assert shown["checkpoint.saved"][3] == "thread/1"
    record = golden("checkpoint.saved.v2")
    assert record.value is not None
    assert shown["checkpoint.saved"][4] == msgpack.unpackb(record.value)
