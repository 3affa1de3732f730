"""A saver on each wiring, and threads that nobody else uses."""

from __future__ import annotations

import uuid

import pytest
import pytest_asyncio
from langchain_core.runnables import RunnableConfig

from langgraph.checkpoint.kafka import AsyncKafkaSaver
from tests.wirings import EVERY_STORE, Form, Savers


@pytest_asyncio.fixture(loop_scope="session", params=EVERY_STORE)
async def saver(request: pytest.FixtureRequest, savers: Savers) -> AsyncKafkaSaver:
    """The checkpointer: on a SQLite file, on SQLite in memory, on Kafka and Redis."""
    shared = (await savers.shared(request.param, Form.AWAITED)).saver
    assert isinstance(shared, AsyncKafkaSaver)
    return shared


@pytest.fixture
def thread() -> RunnableConfig:
    """The config of a thread that is new."""
    return new_thread()


@pytest.fixture
def other_thread() -> RunnableConfig:
    """The config of another thread that is new."""
    return new_thread()


def new_thread() -> RunnableConfig:
    """Return the config of a thread that nothing has used before."""
    return {"configurable": {"thread_id": uuid.uuid4().hex}}
