"""Of how many pieces the view makes a value: the writer's count is a bound that holds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgpack
import pytest

from eventstore.events import Extended, Full, Payload, Referenced
from projector.values import Buffer, StoredVersion, extended
from saver.bases import MAX_PIECES, Bases
from saver.encoding import ValueEncoder
from saver.place import Place

from .encoded import Encoded

PLACE = Place("t", "ns", None)


class Channel:
    """A channel as the writer encodes it and as the view stores it."""

    def __init__(self) -> None:
        self.bases = Bases()
        self.buffer = Buffer()
        self.versions: list[StoredVersion] = []
        """By the offset of the event that stored each."""

    def put(self, items: list[str], base_offset: int | None) -> int:
        """Store a value; return where it is stored. Its pieces are no more than the writer says."""
        offset = len(self.versions)
        event_id = offset.to_bytes(16)
        encoder = ValueEncoder(PLACE, event_id, self.bases)
        value = encoder.value("c", Payload("msgpack", msgpack.packb(items)), base_offset)
        base = encoder.stored["c"]
        if isinstance(value, Referenced):
            return value.offset
        if isinstance(value, Extended):
            version = self.extended(value)
        else:
            assert isinstance(value, Full)
            version = StoredVersion(value.payload.type, value.digest, value.payload.data)
        assert len(version.pieces) <= base.pieces <= MAX_PIECES
        self.versions.append(version)
        base.offset = offset
        self.bases.add(PLACE.thread_id, "c", base)
        return offset

    def extended(self, value: Extended) -> StoredVersion:
        """Return what the view makes of a value that extends another one."""
        return extended(
            self.versions[value.offset],
            value.offset,
            own=StoredVersion(value.type, value.digest, value.head, PLACE.namespace),
            span=(value.start, value.stop),
            tail=value.tail,
            buffer=self.buffer,
        )


def text(random: Random, size: int) -> str:
    return random.randbytes(size // 2).hex()


def beginning(random: Random) -> list[str]:
    return [text(random, 60) for _ in range(30)]


EDITS: dict[str, Callable[[Random, list[str]], list[str]]] = {
    "append": lambda random, items: [*items, text(random, 50)],
    "short in front": lambda random, items: [text(random, 20), *items],
    "long in front": lambda random, items: [text(random, 90), *items],
    "both ends": lambda random, items: [text(random, 30), *items, text(random, 30)],
    "long at both ends": lambda random, items: [text(random, 90), *items, text(random, 90)],
    "window": lambda random, items: [*items[1:], text(random, 50)],
    "last changed": lambda random, items: [*items[:-1], text(random, 50)],
    "shorter": lambda _, items: items[1:-1] if len(items) > 20 else items,
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_value_has_no_more_pieces_than_counted(edit: str) -> None:
    """However often it changes in one way: it is stored whole before it has too many."""
    random, channel = Random(1), Channel()
    items, at = beginning(random), None
    for _ in range(2 * MAX_PIECES):
        items = EDITS[edit](random, items)
        at = channel.put(items, at)


@pytest.mark.parametrize("seed", range(4))
def test_no_more_where_branches_grow_in_turn(seed: int) -> None:
    """Whatever another branch has put into the buffer meanwhile."""
    random, channel = Random(seed), Channel()
    first = beginning(random)
    branches = [(first, channel.put(first, None))] * 3
    for _ in range(300):
        branch = random.randrange(3)
        items, at = random.choice((branches[branch], random.choice(branches)))
        items = EDITS[random.choice(list(EDITS))](random, items)
        branches[branch] = items, channel.put(items, at)


def test_what_nobody_reads_is_stored_whole_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who never reads does not see what others add to the buffer: it begins anew in time."""
    monkeypatch.setattr("saver.encoding.MAX_UNREAD", 5)
    few = ["x" * 600]
    thread = Encoded()
    last = thread.put(x=few)
    whole: list[int] = []
    for turn in range(1, 19):
        last = thread.put(last, x=[*few, *(str(number) * 20 for number in range(turn))])
        whole += [turn] if isinstance(last.value(), Full) else []
    assert whole == [6, 12, 18]
    thread.check_all()
