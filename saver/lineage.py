"""Lineage: what this saver knows of the checkpoints that it read, put or began to put.

Appends carry the incarnation of what they continue, and inherit only from a checkpoint that this
saver itself read or saw acknowledged. Bounded: what was forgotten costs a read, never correctness.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from eventstore.events import Version

PER_THREAD = 64
"""Checkpoints remembered per thread: forks reach back a few, runs go on from the last."""


@dataclass(slots=True)
class Known:
    """A checkpoint that this saver knows."""

    incarnation: int
    event_id: bytes
    versions: Mapping[str, Version]
    values: Mapping[str, int]
    """Channel → offset of the event that stored its last value, of values that may be extended."""
    is_confirmed: bool
    """Whether it was read, or its append acknowledged: only then may others inherit from it."""
    is_under_way: bool = False
    """Whether its append is neither acknowledged nor failed."""
    put_at: int = 0
    """The lineage's time when its append was acknowledged or failed, 0 for what was read."""
    sources: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Channel → event that sealed its value, of values that are sealed."""


class Lineage:
    """A bounded memory of checkpoints, by thread, namespace and id. Safe from any OS thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._threads: OrderedDict[str, OrderedDict[tuple[str, str], Known]] = OrderedDict()
        # Thread → its last deletion that this saver knows of. The oldest ones are forgotten.
        self._deleted: OrderedDict[str, int] = OrderedDict()
        # Counts the puts that have ended.
        self._time = 0
        self._lock = Lock()

    @property
    def time(self) -> int:
        """Return the present time, for `remember`."""
        return self._time

    def get(self, thread_id: str, namespace: str, checkpoint_id: str) -> Known | None:
        """Return what is known of a checkpoint."""
        with self._lock:
            known = self._threads.get(thread_id)
            if known is None:
                return None
            self._threads.move_to_end(thread_id)
            return known.get((namespace, checkpoint_id))

    def under_way(self, thread_id: str, *, since: int) -> Known | None:
        """Return a thread's latest put that has not ended, or had not at the time `since`."""
        with self._lock:
            thread = self._threads.get(thread_id, OrderedDict())
            for known in reversed(thread.values()):
                if known.is_under_way or known.put_at > since:
                    return known
        return None

    def remember(
        self,
        thread_id: str,
        namespace: str,
        checkpoint_id: str,
        known: Known,
        *,
        read_since: int | None = None,
    ) -> None:
        """Remember a checkpoint in place of what was known of it, unless it is deleted by now.

        `read_since` is the time at which a read began. It may not have seen a put of the same id
        that had not ended by then, which stays.
        """
        with self._lock:
            if known.incarnation < self._deleted.get(thread_id, 0):
                # A read that took longer than the deletion.
                return
            thread = self._threads.get(thread_id)
            if thread is None:
                thread = self._threads[thread_id] = OrderedDict()
            else:
                self._threads.move_to_end(thread_id)
            key = (namespace, checkpoint_id)
            before = thread.get(key)
            if before is not None:
                is_newer = read_since is not None and before.put_at > read_since
                if is_newer or (read_since is not None and before.is_under_way):
                    return
                thread.move_to_end(key)
            else:
                self._size += 1
            thread[key] = known
            if len(thread) > PER_THREAD:
                thread.popitem(last=False)
                self._size -= 1
            while self._size > self._limit and len(self._threads) > 1:
                _, oldest = self._threads.popitem(last=False)
                self._size -= len(oldest)

    def ended(self, known: Known) -> None:
        """Note that the append of a checkpoint was acknowledged, or failed."""
        with self._lock:
            self._time += 1
            known.put_at = self._time
            known.is_under_way = False

    def forget(self, thread_id: str, namespace: str, checkpoint_id: str, event_id: bytes) -> None:
        """Forget a checkpoint, if what is known of it is still this event."""
        with self._lock:
            thread = self._threads.get(thread_id)
            key = (namespace, checkpoint_id)
            if thread is not None and (known := thread.get(key)) and known.event_id == event_id:
                del thread[key]
                self._size -= 1

    def deleted_at(self, thread_id: str) -> int:
        """Return the last deletion of a thread that this saver knows of, 0 if of none."""
        with self._lock:
            return self._deleted.get(thread_id, 0)

    def saw_deletion(self, thread_id: str, deleted_at: int) -> None:
        """Note that a thread was deleted at an offset, and forget its older lives."""
        with self._lock:
            if deleted_at <= self._deleted.get(thread_id, 0):
                return
            self._deleted[thread_id] = deleted_at
            self._deleted.move_to_end(thread_id)
            if len(self._deleted) > self._limit:
                self._deleted.popitem(last=False)
            thread = self._threads.get(thread_id, OrderedDict())
            for key in [key for key, known in thread.items() if known.incarnation < deleted_at]:
                del thread[key]
                self._size -= 1

    def forget_thread(self, thread_id: str) -> None:
        """Forget everything of a thread, but for its last deletion."""
        with self._lock:
            thread = self._threads.pop(thread_id, None)
            if thread is not None:
                self._size -= len(thread)
