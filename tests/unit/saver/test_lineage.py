"""What a saver remembers of checkpoints, and when it forgets."""

from __future__ import annotations

from saver.lineage import PER_THREAD, Known, Lineage


def known(number: int = 0) -> Known:
    return Known(0, number.to_bytes(16), {}, {}, is_confirmed=True)


def test_a_checkpoint_is_remembered_by_its_place() -> None:
    """Thread, namespace and id together name what is known."""
    lineage = Lineage(100)
    lineage.remember("t", "", "1", known(1))
    lineage.remember("t", "ns", "1", known(2))
    assert lineage.get("t", "", "1") == known(1)
    assert lineage.get("t", "ns", "1") == known(2)
    assert lineage.get("t", "", "2") is None
    assert lineage.get("other", "", "1") is None


def test_a_later_put_takes_the_place() -> None:
    """Of one id the last one counts, and forgetting the first one then changes nothing."""
    lineage = Lineage(100)
    lineage.remember("t", "", "1", known(1))
    lineage.remember("t", "", "1", known(2))
    lineage.forget("t", "", "1", known(1).event_id)
    assert lineage.get("t", "", "1") == known(2)
    lineage.forget("t", "", "1", known(2).event_id)
    assert lineage.get("t", "", "1") is None


def test_a_forgotten_thread_is_forgotten_whole() -> None:
    """Nothing of it is known any more; others are."""
    lineage = Lineage(100)
    for thread in ("t", "other"):
        for number in range(3):
            lineage.remember(thread, "", str(number), known(number))
    lineage.forget_thread("t")
    lineage.forget_thread("never there")
    assert lineage.get("t", "", "1") is None
    assert lineage.get("other", "", "1") == known(1)


def test_a_thread_keeps_its_latest_checkpoints() -> None:
    """A long thread forgets its oldest ones, one by one."""
    lineage = Lineage(1_000)
    for number in range(PER_THREAD + 2):
        lineage.remember("t", "", str(number), known(number))
    assert lineage.get("t", "", "1") is None
    assert lineage.get("t", "", "2") == known(2)


def test_the_longest_unused_thread_goes_first() -> None:
    """At its limit the memory forgets threads that nobody asked for."""
    lineage = Lineage(3)
    for thread in ("a", "b", "c"):
        lineage.remember(thread, "", "1", known())
    lineage.get("a", "", "1")
    lineage.remember("d", "", "1", known())
    assert [name for name in "abcd" if lineage.get(name, "", "1")] == ["a", "c", "d"]


def test_a_deleted_threads_older_life_is_not_remembered() -> None:
    """What a read brings that took longer than the deletion would make what continues it void."""
    lineage = Lineage(100)
    new = Known(7, bytes(16), {}, {}, is_confirmed=True)
    lineage.remember("t", "", "1", known(1))
    lineage.remember("t", "", "2", new)
    lineage.saw_deletion("t", 7)
    lineage.remember("t", "", "1", known(1))
    assert lineage.get("t", "", "1") is None
    assert lineage.get("t", "", "2") == new
    lineage.saw_deletion("t", 5)
    assert lineage.deleted_at("t") == 7
    lineage.forget_thread("t")
    assert lineage.deleted_at("t") == 7


def test_deletions_are_remembered_up_to_the_limit() -> None:
    lineage = Lineage(2)
    for number in range(1, 4):
        lineage.saw_deletion(str(number), number)
    assert [lineage.deleted_at(str(number)) for number in range(1, 4)] == [0, 2, 3]


def test_a_read_does_not_replace_a_later_put() -> None:
    """Children of an id that is put again must not inherit from what was there before."""
    lineage = Lineage(100)
    began_at = lineage.time
    again = Known(0, bytes(16), {}, {}, is_confirmed=False, is_under_way=True)
    lineage.remember("t", "", "1", again)
    lineage.remember("t", "", "1", known(1), read_since=lineage.time)
    assert lineage.get("t", "", "1") is again
    lineage.ended(again)
    lineage.remember("t", "", "1", known(1), read_since=began_at)
    assert lineage.get("t", "", "1") is again
    lineage.remember("t", "", "1", known(1), read_since=lineage.time)
    assert lineage.get("t", "", "1") == known(1)
