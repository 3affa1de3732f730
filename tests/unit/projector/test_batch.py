"""What a batch is: how far it goes, and what it asks for."""

from __future__ import annotations

import pytest

from eventstore.codec import thread_hash
from eventstore.events import (
    LogNudged,
    NewEvent,
)
from projector.layout import ThreadRecord, epoch_of
from projector.projection import Entry, State, fold, independent, wanted_by
from tests.contracts.view_suite import (
    Item,
    Poison,
    Tombstone,
    deleted,
    entry_of,
    removed,
    saved,
)
from tests.folding import copied, erased


def entries_of(*items: Item) -> list[Entry]:
    """Return what a projector makes of the records of a log."""
    return [entry_of(item, offset) for offset, item in enumerate(items)]


def test_a_thread_waits_behind_what_moves_its_state() -> None:
    """After a copy or a removal the thread's later entries need another load; others do not."""
    entries = entries_of(
        saved("t", "1"),
        removed("t", "1"),
        saved("u", "1"),
        Poison(None),
        NewEvent(None, LogNudged()),
        saved("t", "2"),
        copied("u", 0),
        erased("u", 3),
    )
    assert independent(entries) == 5
    assert independent(entries[2:]) == 5
    assert independent(entries[5:7]) == 2
    assert independent([]) == 0


def test_each_thread_is_asked_for_once() -> None:
    """A batch asks for what it needs without repeating itself."""
    first = saved("t", "1")
    entries = entries_of(first, saved("t", "1"), Tombstone(first), deleted("t"))
    wanted = wanted_by(entries)
    assert wanted.threads == [thread_hash("t")]
    assert len(wanted.live) == len(set(wanted.live)) == 2


def test_state_that_was_not_asked_for_is_an_error() -> None:
    """The fold never takes "not loaded" for "not there"."""
    entry = entry_of(saved("t", "2"), 2)
    known = ThreadRecord(epoch_of(0), 0, "t", 1, 1_000)
    with pytest.raises(KeyError):
        fold([entry], State({thread_hash("t"): known}, {}))
