"""Values and metadata come back as LangGraph's own in-memory saver gives them back."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Send
from pydantic import BaseModel, SecretStr

from langgraph.checkpoint.kafka import ValueCorruptedError
from tests.wirings import EVERY_STORE, Caller, Form, Savers, Store

from .thread import Thread, checkpoint_of

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    # LangGraph warns of types that are not on its list of allowed ones.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Point:
    x: int
    y: list[int]


class Model(BaseModel):
    name: str
    inner: dict[str, int]


EMPTY: tuple[Any, ...] = ([], {}, (), "", b"", None)
VALUES: Sequence[Any] = [
    *(
        *EMPTY,
        *(True, 0, -1, 2**63, 1.5, float("inf"), "text", b"\0bytes", bytearray(b"a")),
        *((1, (2, 3)), {1, 2}, frozenset({3}), {(1, 2), (3, 4)}, {"a": {"b": {1, 2}}}),
        *(deque([1, 2], maxlen=5), Counter("aab"), OrderedDict(a=1), defaultdict(list, {"a": [1]})),
        *(datetime(2026, 1, 2, 3, 4, 5, 6, UTC), date(2026, 1, 2), time(3, 4), timedelta(days=1)),
        *(datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")), ZoneInfo("UTC")),
        *(uuid.UUID(int=1), Decimal("1.10"), Path("b"), ip_address("::1")),
        *(re.compile("a+", re.IGNORECASE), Colour.RED, Pair(1, "b"), Point(1, [2]), SecretStr("s")),
        *(Model(name="n", inner={"a": 1}), HumanMessage("hi", id="1"), AIMessage("yes", id="2")),
        *(Send("n", {"m": 1}), Interrupt(value={"q": 1}, id="i"), Command(resume="yes")),
        *(
            _DeltaSnapshot(["a", b"\0"]),
            [HumanMessage("in a list", id="3")],
            {"k": [None, {"x": ()}]},
        ),
    ),
]


async def in_memory(value: Any) -> tuple[Any, Any]:
    """Return a channel's value and a pending write as InMemorySaver gives them back."""
    saver = InMemorySaver()
    stored = saver.put(
        {"configurable": {"thread_id": "t", "checkpoint_ns": ""}},
        checkpoint_of(1, {"x": value}, {"x": 1}),
        {},
        {"x": 1},
    )
    saver.put_writes(stored, [("x", value)], "k")
    found = saver.get_tuple(stored)
    assert found is not None
    assert found.pending_writes
    return found.checkpoint["channel_values"]["x"], found.pending_writes[0][2]


def alike(ours: Any, theirs: Any) -> bool:
    """Tell whether two values are equal, of one type, and print alike."""
    return type(ours) is type(theirs) and (ours == theirs or repr(ours) == repr(theirs))


async def every_kind_comes_back(caller: Caller) -> None:
    """Compare every value with memory's: in a channel and a write, of a thread and its copy."""
    thread, copy = Thread(caller), Thread(caller)
    values = {f"channel {number}": value for number, value in enumerate(VALUES)}
    config = await thread.put(1, values)
    await thread.write(config, [*values.items()], "k")
    await caller.copy_thread(thread.id, copy.id)
    for here in (thread, copy):
        found = await here.values(1)
        writes = {channel: value for _, channel, value in await here.pending(1)}
        for channel, value in values.items():
            expected = await in_memory(value)
            assert alike(found[channel], expected[0]), value
            assert alike(writes[channel], expected[1]), value


async def test_every_kind_of_value_comes_back_as_from_memory(caller: Caller) -> None:
    """A channel and a pending write give what InMemorySaver gives, by type and value.

    So does a copy of the thread. B59, B62, B64, B65, S24.
    """
    await every_kind_comes_back(caller)


async def test_a_value_that_cannot_be_saved_leaves_nothing(caller: Caller) -> None:
    """The serializer's own error is raised, and the checkpoint before stays the newest. B61."""
    thread = Thread(caller)
    await thread.put(1, {"x": 1})
    with pytest.raises(TypeError):
        await thread.put(2, {"x": 2**64}, parent=1)
    with pytest.raises(TypeError):
        await thread.write(1, [("a", 1), ("x", 2**64)])
    assert await thread.numbers() == [1]
    assert await thread.pending(1) == []


@pytest.mark.parametrize("store", EVERY_STORE)
async def test_a_value_is_saved_as_it_was_at_the_call(savers: Savers, store: Store) -> None:
    """What a node changes while the call is under way is not in what is saved."""
    thread = Thread(await savers.shared(store, Form.AWAITED))
    values, writes = [1], [1]
    metadata: Any = {"list": [1]}
    putting = asyncio.ensure_future(thread.put(1, {"x": values}, metadata=metadata))
    writing = asyncio.ensure_future(thread.write(1, [("x", writes)]))
    await asyncio.sleep(0)
    assert not putting.done()
    for changing in (values, writes, metadata["list"]):
        changing.append(2)
    await asyncio.gather(putting, writing)
    found = await thread.found(1)
    assert found.checkpoint["channel_values"] == {"x": [1]}
    assert found.pending_writes == [("task", "x", [1])]
    assert dict(found.metadata)["list"] == [1]


async def test_metadata_may_hold_objects(caller: Caller) -> None:
    """Metadata that is no plain value comes back as the serializer gives it. B54."""
    thread = Thread(caller)
    told = {"k": uuid.UUID(int=1), "s": {1, 2}, "m": HumanMessage("hi", id="1"), "b": b"x"}
    await thread.put(1, metadata=told)
    found: Any = (await thread.found()).metadata
    assert {key: found[key] for key in told} == told
    assert await thread.numbers(filter={"k": uuid.UUID(int=1)}) == [1]


async def test_configurable_keys_become_metadata(caller: Caller) -> None:
    """Texts and numbers of the config are kept, objects and hidden keys are not. B55."""
    thread = Thread(caller)
    given = {"obj": object(), "user_id": "u", "n": 3, "__x": 1, "__read_level": "session"}
    await thread.put(1, configurable=given)
    kept = {"user_id": "u", "n": 3}
    assert (await thread.found()).metadata == {"source": "loop", "step": 1, "parents": {}} | kept


async def test_nested_and_empty_metadata_is_kept(caller: Caller) -> None:
    """Mappings, lists, None and booleans in metadata come back equal. B57."""
    thread = Thread(caller)
    told: dict[str, Any] = {
        "a": {"b": [1, {"c": None}]},
        "e": {},
        "l": [],
        "t": True,
        "n": None,
        "s": "a\0b",
    }
    await thread.put(1, metadata=told)
    found: Any = (await thread.found()).metadata
    assert {key: found[key] for key in told} == {**told, "s": "ab"}


async def test_metadata_of_every_kind_of_run_is_read(caller: Caller) -> None:
    """A stub of exit durability, counters of delta channels and a user's keys are all accepted."""
    thread = Thread(caller)
    counters = {"counters_since_delta_snapshot": {"log": (1, 2)}}
    await caller.put(thread.config(), checkpoint_of(1, {}, {}), {"step": -2}, {})
    await thread.put(2, metadata=counters, parent=1)
    assert (await thread.found(1)).metadata == {"step": -2}
    found: Any = (await thread.found(2)).metadata
    assert [*found["counters_since_delta_snapshot"]["log"]] == [1, 2]


async def test_a_dataclass_and_a_model_survive(caller: Caller) -> None:
    """User types come back as themselves, on every LangGraph that is accepted. B67."""
    thread = Thread(caller)
    await thread.put(1, {"x": Point(1, [2]), "y": Model(name="n", inner={})})
    assert await thread.values() == {"x": Point(1, [2]), "y": Model(name="n", inner={})}


async def test_a_corrupt_value_is_an_error(lone_caller: Caller) -> None:
    """A stored value whose bytes changed raises an error that names it, in get and in list. S28.

    It is never an absent checkpoint, and other threads are read on.
    """
    thread, other = Thread(lone_caller), Thread(lone_caller)
    await thread.put(1, {"x": "precious", "y": 1})
    await other.put(1, {"x": "fine"})
    # Also brings the view up to the log.
    assert len(await lone_caller.list(None)) == 2
    await lone_caller.corrupt_value(thread.id, "x")
    for reading in (thread.get, thread.numbers):
        with pytest.raises(ValueCorruptedError) as raised:
            await reading()
        assert thread.id in str(raised.value)
        assert "'x'" in str(raised.value)
    assert await other.values() == {"x": "fine"}
