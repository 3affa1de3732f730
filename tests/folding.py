"""A view in dictionaries, for tests of the fold: what it holds can be looked at, and is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from eventstore.codec import thread_hash
from eventstore.events import NewEvent, ThreadCopied, ThreadErased
from projector.chunks import chunk_scope, is_live_chunk_scope
from projector.layout import (
    CHUNKS,
    DEAD,
    HIDDEN,
    IDS,
    NEWEST,
    PENDING,
    POISON,
    RECENT,
    RECORDS,
    REMOVED,
    ROWS,
    RUNS,
    SCOPE_LETTERS,
    THREADS,
    TIMELINE,
    VALUES,
    WAITING,
    WRITERS,
    WRITES,
    Row,
    ThreadRecord,
    checkpoint_field,
    epoch_of,
    namespace_prefix,
    newest_member,
    run_member,
    split_checkpoint_field,
    split_newest_member,
    split_run_member,
    stored_writes,
    timeline_member,
    u64,
    unpack_removed,
    write_member,
)
from projector.pending import unpack_pending
from projector.projection import Entry, State, fold, independent, wanted_after, wanted_by
from projector.values import unpack_value, whole
from projector.view import Cell, Changes, Wanted

from .contracts.view_suite import Item, entry_of

Name = tuple[str, str]
"""(namespace, checkpoint id)."""


COPY = b"copy-id-of-16-b."


def erased(thread: str, incarnation: int) -> NewEvent:
    """Return the marker of an erased thread."""
    return NewEvent(None, ThreadErased(thread_hash(thread), incarnation))


def copied(thread: str, checkpoints: int, *, incarnation: int = 0) -> NewEvent:
    """Return the event that completes a copy."""
    return NewEvent(thread, ThreadCopied(COPY, "source", incarnation, checkpoints))


@dataclass
class DictView:
    """The maps and sorted sets of one partition, and the offset that the next item gets."""

    cells: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)
    members: dict[bytes, set[bytes]] = field(default_factory=dict)
    next_offset: int = 1

    def feed(self, *items: Item) -> int:
        """Fold items as one batch of the log; return the offset of the last one."""
        first = self.next_offset
        self.next_offset += len(items)
        self.fold([entry_of(item, first + number) for number, item in enumerate(items)])
        self.check()
        return self.next_offset - 1

    def fold(self, entries: Sequence[Entry]) -> None:
        """Fold entries, in as few loads as the fold allows."""
        while entries:
            count = independent(entries)
            batch, entries = entries[:count], entries[count:]
            state = State(self._records(), self._load(wanted_by(batch)))
            more = wanted_after(batch, state)
            if more is not None:
                state.add(self._load(more))
            self._apply(fold(batch, state))

    def dump(self) -> dict[bytes, dict[bytes, bytes]]:
        """Return what is reachable, as a view's `dump` does."""
        live = {self.scope(thread) for thread in self.cells.get(THREADS, {})}
        found = dict(self.cells)
        for key, members in self.members.items():
            kept = members
            if key == NEWEST:
                kept = {m for m in members if split_newest_member(m)[1] in live}
            elif key == RUNS:
                kept = {m for m in members if split_run_member(m)[0] in live}
            found[key] = dict.fromkeys(kept, b"")
        records = self._records()
        pending = {n: unpack_pending(n, data) for n, data in found.get(PENDING, {}).items()}
        found[PENDING] = {
            n: entry.pack()
            for n, entry in pending.items()
            if not entry.is_past(records.get(entry.thread))
        }
        return {
            key: entries
            for key, entries in found.items()
            if entries
            and key != DEAD
            and (key[:1] not in SCOPE_LETTERS or key[1:] in live)
            and (key[:1] != CHUNKS or is_live_chunk_scope(key[1:], records.get(key[1:17])))
        }

    # What it holds

    def scope(self, thread: bytes | str, copy_id: bytes | None = None) -> bytes:
        """Return a thread's live scope, or that of a copy."""
        named = thread_hash(thread) if isinstance(thread, str) else thread
        data = self.cells.get(THREADS, {}).get(named)
        epoch = epoch_of(0) if data is None else ThreadRecord.unpack(data).epoch
        return named + (copy_id or epoch)

    def record(self, thread: str) -> ThreadRecord | None:
        """Return a thread's record."""
        return self._records().get(thread_hash(thread))

    def known(self, thread: str) -> ThreadRecord:
        """Return the record of a thread that has one."""
        return self._records()[thread_hash(thread)]

    def rows(self, thread: str) -> dict[Name, Row]:
        """Return a thread's visible checkpoints."""
        cells = self.cells.get(ROWS + self.scope(thread), {})
        return {split_checkpoint_field(name): Row.unpack(data) for name, data in cells.items()}

    def row(self, thread: str, checkpoint_id: str, namespace: str = "") -> Row:
        """Return a visible checkpoint."""
        return self.rows(thread)[namespace, checkpoint_id]

    def ids(self, thread: str) -> list[str]:
        """Return the ids of the root namespace that are visible."""
        return sorted(cid for namespace, cid in self.rows(thread) if not namespace)

    def hidden(self, thread: str) -> set[bytes]:
        """Return the event ids of checkpoints that were replaced or removed."""
        return set(self.cells.get(HIDDEN + self.scope(thread), {}))

    def values(self, thread: str, checkpoint_id: str) -> dict[str, bytes | None]:
        """Return what can be read of a checkpoint's channels; None without a value."""
        scope = self.scope(thread)
        found: dict[str, bytes | None] = {}
        for channel, (_, ref) in self.row(thread, checkpoint_id).channels.items():
            if ref is None:
                found[channel] = None
            elif isinstance(ref, int):
                data = self.cells[VALUES + scope].get(u64(ref) + channel.encode())
                entry = None if data is None else whole(data, channel, partial(self._of, thread))
                found[channel] = b"(gone)" if entry is None else unpack_value(entry)[0].data
            else:
                found[channel] = b"(unresolved)"
        return found

    def _of(self, thread: str, fields: Sequence[tuple[bytes, bytes]]) -> list[bytes | None]:
        chunks = chunk_scope(thread_hash(thread), self.known(thread).incarnation)
        scopes = {CHUNKS: chunks}
        return [
            self.cells.get(letter + scopes.get(letter, self.scope(thread)), {}).get(name)
            for letter, name in fields
        ]

    def chunks(self, thread: str, incarnation: int = 0) -> dict[int, bytes]:
        """Return the chunks of a thread's incarnation by offset."""
        cells = self.cells.get(CHUNKS + chunk_scope(thread_hash(thread), incarnation), {})
        return {int.from_bytes(name): data for name, data in cells.items()}

    def pending(self) -> set[int]:
        """Return the offsets of what goes unless a manifest comes."""
        return {int.from_bytes(name) for name in self.dump().get(PENDING, {})}

    def writes(self, thread: str, checkpoint_id: str) -> dict[tuple[str, int], bytes]:
        """Return the writes that show on a visible checkpoint, by task and index."""
        scope = self.scope(thread)
        row = self.row(thread, checkpoint_id)
        prefix = write_member("", checkpoint_id, row.life, "")
        return {
            (write.task_id, write.index): write.payload.data
            for member in self.members.get(WRITERS + scope, set())
            if member.startswith(prefix)
            for write in stored_writes(member, self.cells[WRITES + scope][member])
        }

    def removals(self, thread: str, checkpoint_id: str) -> tuple[int, bytes]:
        """Return (life, event id of the last one that was removed) of an id."""
        data = self.cells.get(REMOVED + self.scope(thread), {})[checkpoint_field("", checkpoint_id)]
        return unpack_removed(data)

    def log_records(self, thread: str) -> dict[bytes, bytes]:
        """Return the epoch noted for each event's record of part 0, by event id."""
        cells = self.cells.get(RECORDS + thread_hash(thread), {})
        return {name[:16]: note[:16] for name, note in cells.items()}

    def waiting(self, thread: str) -> list[int]:
        """Return the offsets of what waits in a parked thread."""
        cells = self.cells.get(WAITING + thread_hash(thread), {})
        return sorted(int.from_bytes(name) for name in cells)

    def dead(self) -> set[bytes]:
        """Return the dead scopes."""
        return set(self.members.get(DEAD, set()))

    def poison(self) -> dict[int, str]:
        """Return the reasons of unreadable records that name no thread, by offset."""
        cells = self.cells.get(POISON, {})
        return {int.from_bytes(offset): reason.decode() for offset, reason in cells.items()}

    def run(self, run_id: str) -> set[tuple[bytes, str, str]]:
        """Return (scope, namespace, checkpoint id) of a run's entries."""
        prefix = run_member(run_id, b"", "", "")[: 4 + len(run_id.encode())]
        found = self.members.get(RUNS, set())
        return {split_run_member(m) for m in found if m.startswith(prefix)}

    # What always holds

    def check(self) -> None:
        """Compare every index with the rows that it is of."""
        records = self._records()
        newest: set[bytes] = set()
        runs: set[bytes] = set()
        recent: set[bytes] = set()
        for thread, record in records.items():
            scope = thread + record.epoch
            cells = self.cells.get(ROWS + scope, {})
            rows = {split_checkpoint_field(n): Row.unpack(data) for n, data in cells.items()}
            ids = {namespace_prefix(ns) + cid.encode() for ns, cid in rows}
            assert self.members.get(IDS + scope, set()) == ids
            timeline = {timeline_member(cid, ns) for ns, cid in rows}
            assert self.members.get(TIMELINE + scope, set()) == timeline
            newest |= {newest_member(cid, scope, ns) for ns, cid in rows}
            runs |= {
                run_member(row.metadata["run_id"], scope, ns, cid)
                for (ns, cid), row in rows.items()
                if isinstance(row.metadata.get("run_id"), str)
            }
            assert self.members.get(WRITERS + scope, set()) == set(
                self.cells.get(WRITES + scope, {})
            )
            assert record.count == len(rows)
            if rows:
                recent.add(u64(record.activity_ms) + thread)
            assert scope not in self.dead()
            assert bool(self.cells.get(WAITING + thread)) == (record.parked is not None)
        dump = self.dump()
        assert dump.get(NEWEST, {}).keys() == newest
        assert dump.get(RUNS, {}).keys() == runs
        assert dump.get(RECENT, {}).keys() == recent

    def _records(self) -> dict[bytes, ThreadRecord]:
        cells = self.cells.get(THREADS, {})
        return {thread: ThreadRecord.unpack(data) for thread, data in cells.items()}

    def _load(self, wanted: Wanted) -> dict[Cell, bytes | None]:
        cells = [(letter + self.scope(thread), name) for thread, letter, name in wanted.live]
        cells.extend(wanted.cells)
        return {(key, name): self.cells.get(key, {}).get(name) for key, name in cells}

    def _apply(self, changes: Changes) -> None:
        for key in changes.drops:
            self.cells.pop(key, None)
        for (key, name), value in changes.cells.items():
            if value is None:
                self.cells.get(key, {}).pop(name, None)
            else:
                self.cells.setdefault(key, {})[name] = value
        for (key, member), is_in in changes.members.items():
            members = self.members.setdefault(key, set())
            (members.add if is_in else members.discard)(member)
