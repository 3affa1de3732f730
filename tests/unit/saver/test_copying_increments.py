"""What copies of threads with growing values cost, and that each of their values is whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeAlias

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from eventstore.codec import decode
from eventstore.events import CheckpointSaved, Event, Extended, Full, Inherited, Referenced
from eventstore.log import Appended, LogRecord
from langgraph.checkpoint.kafka import AsyncKafkaSaver
from saver import copying
from saver.encoding import LARGE_BYTES

TURNS = 120

NAMES = ("", "child:1", "child:2")
"""Namespaces whose channels have the same names."""

Values: TypeAlias = Mapping[str, Any]

RANDOM = Random()
"""What tests draw from; seeded anew for each of them."""


@pytest.fixture
async def saver() -> AsyncIterator[AsyncKafkaSaver]:
    """A saver with nothing in its log."""
    RANDOM.seed(7)
    async with AsyncKafkaSaver.from_conn_string("sqlite:///:memory:") as saver:
        yield saver


def config_of(thread_id: str, number: int | None = None, ns: str | None = "") -> Any:
    configurable: dict[str, Any] = {"thread_id": thread_id}
    if ns is not None:
        configurable["checkpoint_ns"] = ns
    if number is not None:
        configurable["checkpoint_id"] = f"{number:06}"
    return {"configurable": configurable}


async def put(
    saver: AsyncKafkaSaver,
    number: int,
    values: Values,
    versions: Mapping[str, int],
    *,
    parent: int | None = None,
    ns: str = "",
    thread_id: str = "source",
    run: str = "",
) -> None:
    """Put a checkpoint; channels whose version is its number have changed."""
    checkpoint: Any = {
        "v": 4,
        "id": f"{number:06}",
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": dict(values),
        "channel_versions": dict(versions),
        "versions_seen": {},
        "updated_channels": None,
    }
    metadata: Any = {"step": number, "run_id": run}
    new: dict[str, str | int | float] = {
        channel: version for channel, version in versions.items() if version == number
    }
    await saver.aput(config_of(thread_id, parent, ns), checkpoint, metadata, new)


def text(size: int = 600) -> str:
    """Return a text that does not compress well."""
    return RANDOM.randbytes(size // 2).hex()


def messages(count: int) -> list[Any]:
    return [HumanMessage(text(), id=f"message {number}") for number in range(count)]


async def put_chat(saver: AsyncKafkaSaver, all_messages: Sequence[Any], *, runs: int = 1) -> None:
    """Put a checkpoint per message, beside a long value that stays, each run in its turn."""
    long = text(4_000)
    for number in range(1, len(all_messages) + 1):
        values = {"messages": list(all_messages[:number]), "long": long}
        versions = {"messages": number, "long": 1}
        parent = number - 1 if number > 1 else None
        await put(saver, number, values, versions, parent=parent, run=f"run {number % runs}")


async def records_of(saver: AsyncKafkaSaver) -> list[LogRecord]:
    log = saver.engine.log
    end = (await log.end_position((0,))).next_offset(0)
    at, found = 0, list[LogRecord]()
    while at < end:
        batch = await log.read(0, at, end)
        found += batch.records
        at = batch.next_offset
    return found


def size_of(records: Sequence[LogRecord]) -> int:
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)


def forms_of(records: Sequence[LogRecord], channel: str) -> list[type]:
    """Return which forms a channel's values have, one checkpoint behind the other."""
    events = [decode(record).event for record in records]
    return [
        type(event.channels[channel].value)
        for event in events
        if isinstance(event, CheckpointSaved) and channel in event.channels
    ]


async def copied(saver: AsyncKafkaSaver, source: str, target: str) -> list[LogRecord]:
    """Copy a thread; return the records that it took."""
    before = len(await records_of(saver))
    await saver.acopy_thread(source, target)
    return (await records_of(saver))[before:]


async def shown(saver: AsyncKafkaSaver, thread_id: str) -> list[Any]:
    """Return all that a thread shows, without its name: histories too, where there is no value."""

    def named(config: Any) -> Any:
        return None if config is None else {**config["configurable"], "thread_id": ""}

    async def item(found: CheckpointTuple) -> Any:
        checkpoint = found.checkpoint
        channels = [*set(checkpoint["channel_versions"]) - set(checkpoint["channel_values"])]
        histories = await saver.aget_delta_channel_history(config=found.config, channels=channels)
        return (
            named(found.config),
            checkpoint,
            found.metadata,
            named(found.parent_config),
            found.pending_writes,
            histories,
        )

    return [await item(found) async for found in saver.alist(config_of(thread_id, ns=None))]


async def assert_copies(saver: AsyncKafkaSaver, count: int) -> None:
    """Copy the source, and the copy: both show all that the source shows."""
    expected = await shown(saver, "source")
    assert len(expected) == count
    await saver.acopy_thread("source", "target")
    await saver.acopy_thread("target", "second")
    await saver.adelete_thread("source")
    for thread_id in ("target", "second"):
        assert await shown(saver, thread_id) == expected


async def test_a_copy_costs_about_what_the_original_cost(saver: AsyncKafkaSaver) -> None:
    """The first value of each channel is stored whole, and what it grows by from then on."""
    await put_chat(saver, messages(TURNS))
    original = await records_of(saver)
    copy = await copied(saver, "source", "target")
    assert size_of(copy) < 1.1 * size_of(original)
    assert forms_of(copy, "messages") == [Full] + [Extended] * (TURNS - 1)
    assert forms_of(copy, "long") == [Full] + [Inherited] * (TURNS - 1)


async def test_a_copy_of_a_copy_costs_no_more(saver: AsyncKafkaSaver) -> None:
    """Its source's values are pieces from the beginning."""
    await put_chat(saver, messages(TURNS))
    first = await copied(saver, "source", "target")
    second = await copied(saver, "target", "second")
    assert size_of(second) < 1.1 * size_of(first)


async def test_survivors_of_removed_runs_extend_each_other(saver: AsyncKafkaSaver) -> None:
    """Their parents are gone, so nothing is inherited; what stayed the same is referred to."""
    await put_chat(saver, messages(TURNS), runs=2)
    original = await records_of(saver)
    await saver.adelete_for_runs(["run 0"])
    copy = await copied(saver, "source", "target")
    assert size_of(copy) < 1.1 * size_of(original)
    assert forms_of(copy, "messages") == [Full] + [Extended] * (TURNS // 2 - 1)
    assert forms_of(copy, "long") == [Full] + [Referenced] * (TURNS // 2 - 1)
    assert await shown(saver, "target") == await shown(saver, "source")


async def test_a_copy_goes_on_as_the_original_would(saver: AsyncKafkaSaver) -> None:
    """What is put on it extends what was copied; the original does not change."""
    some = messages(20)
    await put_chat(saver, some[:19])
    expected = await shown(saver, "source")
    await saver.acopy_thread("source", "target")
    before = len(await records_of(saver))
    values = {"messages": some, "long": "short"}
    await put(saver, 20, values, {"messages": 20, "long": 20}, parent=19, thread_id="target")
    added = (await records_of(saver))[before:]
    assert forms_of(added, "messages") == [Extended]
    found = await saver.aget_tuple(config_of("target"))
    assert found is not None
    assert found.checkpoint["channel_values"] == values
    assert await shown(saver, "source") == expected
    assert (await shown(saver, "target"))[1:] == expected


async def put_forks(saver: AsyncKafkaSaver) -> int:
    """Put three branches in turn, each on the last of its own, from one root."""
    heads = dict.fromkeys(range(3), 1)
    grown = dict.fromkeys(range(3), messages(5))
    await put(saver, 1, {"messages": grown[0], "kept": text(600)}, {"messages": 1, "kept": 1})
    for number in range(2, 32):
        branch = number % 3
        grown[branch] = grown[branch] + messages(1)
        values = {"messages": grown[branch]}
        await put(saver, number, values, {"messages": number, "kept": 1}, parent=heads[branch])
        heads[branch] = number
    return 31


async def put_edits(saver: AsyncKafkaSaver) -> int:
    """Put a list that is trimmed, prepended to, changed inside, replaced, emptied and again."""
    edits: list[Callable[[list[Any]], list[Any]]] = [
        lambda now: [*now, text()],
        lambda now: [*now[2:], text()],
        lambda now: [text(40), *now],
        lambda now: [text(90), *now, text()],
        lambda now: [*now[:3], text(), *now[4:]],
        lambda now: now,
        lambda now: now[:-1],
        lambda _: messages(9),
        lambda _: [],
    ]
    now = messages(12)
    for number in range(1, 41):
        now = RANDOM.choice(edits)(now)
        # Every seventh has its parent's version, and so its parent's value.
        version = number if number % 7 else number - 1
        parent = number - 1 if number > 1 else None
        await put(saver, number, {"items": now}, {"items": version}, parent=parent)
    return 40


async def put_namespaces(saver: AsyncKafkaSaver) -> int:
    """Put like values under the same ids and names in several namespaces, in turn."""
    some = messages(20)
    for number in range(1, 11):
        for at, ns in enumerate(NAMES):
            values = {"messages": some[at : at + number + 3]}
            parent = number - 1 if number > 1 else None
            await put(saver, number, values, {"messages": number}, parent=parent, ns=ns)
    return 30


async def put_snapshots(saver: AsyncKafkaSaver) -> int:
    """Put a delta channel that has a value at every third checkpoint, and writes on each."""
    some = messages(30)
    for number in range(1, 31):
        values: dict[str, Any] = {"other": some[:number]}
        if number % 3 == 1:
            values["log"] = _DeltaSnapshot(some[:number])
        versions = {"log": number, "other": number}
        parent = number - 1 if number > 1 else None
        await put(saver, number, values, versions, parent=parent, run=f"run {number % 4}")
        await saver.aput_writes(config_of("source", number), [("log", number)], f"task {number}")
    return 30


async def put_thinned_snapshots(saver: AsyncKafkaSaver) -> int:
    """Put the same, and remove a fourth of it, snapshots among them."""
    await put_snapshots(saver)
    await saver.adelete_for_runs(["run 1"])
    return 22


async def put_strangers(saver: AsyncKafkaSaver) -> int:
    """Put checkpoints whose parents have greater ids, or are nowhere."""
    some = messages(12)
    for number in range(12, 0, -1):
        values = {"messages": some[:number]}
        parent = number + 1 if number % 4 else 99
        await put(saver, number, values, {"messages": number}, parent=parent)
    return 12


async def put_large(saver: AsyncKafkaSaver) -> int:
    """Put values that are encoded apart from the event loop."""
    large = RANDOM.randbytes(LARGE_BYTES)
    for number in range(1, 4):
        await put(
            saver,
            number,
            {"blob": large + b"x" * number},
            {"blob": number},
            parent=number - 1 if number > 1 else None,
        )
    return 3


SOURCES = (
    put_forks,
    put_edits,
    put_namespaces,
    put_snapshots,
    put_thinned_snapshots,
    put_strangers,
    put_large,
)


@pytest.mark.parametrize("put_source", SOURCES)
async def test_a_copy_shows_what_the_original_shows(
    saver: AsyncKafkaSaver, put_source: Callable[[AsyncKafkaSaver], Any]
) -> None:
    """Whatever grew and how, each checkpoint has its values, writes, parent and histories."""
    await assert_copies(saver, await put_source(saver))


@pytest.mark.parametrize("put_source", SOURCES)
async def test_a_copy_that_forgets_is_as_right(
    saver: AsyncKafkaSaver,
    put_source: Callable[[AsyncKafkaSaver], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With room for two checkpoints and one value, it only takes more space."""
    monkeypatch.setattr(copying, "MAX_STAGED", 2)
    monkeypatch.setattr(copying, "BASES_BYTES", 1)
    await assert_copies(saver, await put_source(saver))


async def test_values_without_a_place_are_stored_whole(
    saver: AsyncKafkaSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the log does not tell where it stored an event, nothing extends its values."""
    writer = saver.engine.writer
    append_all = writer.append_all

    async def placeless(thread_id: str, events: Sequence[tuple[bytes, Event]]) -> list[Appended]:
        places = await append_all(thread_id, events)
        return [Appended(place.partition, None, None) for place in places]

    monkeypatch.setattr(writer, "append_all", placeless)
    await put_chat(saver, messages(5))
    copy = await copied(saver, "source", "target")
    assert forms_of(copy, "messages") == [Full] * 5
    assert forms_of(copy, "long") == [Full] + [Inherited] * 4
    assert await shown(saver, "target") == await shown(saver, "source")


async def test_branches_grow_from_their_own(saver: AsyncKafkaSaver) -> None:
    """Though they come in turn, each checkpoint extends its parent's value."""
    await put_forks(saver)
    original = await records_of(saver)
    copy = await copied(saver, "source", "target")
    assert size_of(copy) < 1.1 * size_of(original)


@pytest.mark.parametrize("removed", [[], ["run 1"]])
async def test_snapshots_extend_the_ones_before(
    saver: AsyncKafkaSaver, removed: Sequence[str]
) -> None:
    """So do those of removed ancestors, which the copy carries along."""
    await put_snapshots(saver)
    await saver.adelete_for_runs(removed)
    copy = await copied(saver, "source", "target")
    forms = [form for form in forms_of(copy, "log") if form in {Full, Extended, Referenced}]
    assert forms.count(Full) == 2
    assert forms.count(Extended) >= 7
