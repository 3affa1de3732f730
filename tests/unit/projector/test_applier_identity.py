"""Whose view it is: the checks in front of the first step, and what they refuse."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from eventstore.errors import LogIdentityError, LogTruncatedError
from eventstore.log import LogIdentity
from projector.applier import Applier
from projector.errors import ViewVersionError
from projector.layout import NO_EVENT
from projector.projection import FOLD_VERSION
from projector.view import Progress
from tests.contracts.view_suite import saved
from tests.projections import Ground, rebuilt, sqlite_ground


async def test_view_of_another_log_is_refused(ground: Ground) -> None:
    """Neither applying nor helping touches the view of another log."""
    end = await ground.append(saved("thread", "1"))
    await ground.applier().advance(0, end)
    async with sqlite_ground() as other:
        await other.append(*[saved("thread", f"{n}") for n in range(5)])
        applier = Applier(other.log, ground.view)
        with pytest.raises(LogIdentityError, match="rebuild"):
            await applier.advance(0, end)
        with pytest.raises(LogIdentityError):
            await applier.apply(await other.log.read(0, end, end + 2))
    assert await ground.reached() == end


async def test_repartitioned_log_is_refused(ground: Ground) -> None:
    """A log with another number of partitions is another log."""
    end = await ground.append(saved("thread", "1"))
    await ground.applier().advance(0, end)
    ground.log.log_identity = lambda identity: LogIdentity(identity.log_id, 12)
    with pytest.raises(LogIdentityError, match="12 partitions"):
        await ground.applier().advance(0, end)


async def test_view_ahead_of_the_log_is_refused(ground: Ground) -> None:
    """A log that ends in front of what the view has applied lost records."""
    end = await ground.append(*[saved("thread", f"{n}") for n in range(4)])
    await ground.applier().advance(0, end)
    ground.log.end_of = lambda _: end - 1
    with pytest.raises(LogIdentityError, match="ends at offset"):
        await ground.applier().advance(0, end - 1)


async def test_other_event_in_the_last_place_is_refused(ground: Ground) -> None:
    """A log that went another way since is noticed by the last record's event id."""
    end = await ground.append(*[saved("thread", f"{n}") for n in range(4)])
    await ground.applier().advance(0, end)
    other = f"thread/{NO_EVENT.hex()}/0".encode()
    ground.log.changed = {end - 1: lambda record: replace(record, key=other, event=None)}
    with pytest.raises(LogIdentityError, match="at offset"):
        await ground.applier().advance(0, end)


async def test_compacted_last_record_is_no_reason(ground: Ground) -> None:
    """Where the last record is gone there is nothing to compare."""
    end = await ground.append(*[saved("thread", f"{n}") for n in range(4)])
    await ground.applier().advance(0, end)
    ground.log.missing = {end - 1}
    assert await ground.applier().advance(0, end) == end


async def test_lost_records_are_an_error(ground: Ground) -> None:
    """A view that lacks what is gone from the log's front cannot go on."""
    end = await ground.append(*[saved("thread", f"{n}") for n in range(6)])
    await ground.applier().advance(0, 3)
    truncate(ground, first=5)
    with pytest.raises(LogTruncatedError) as truncated:
        await ground.applier().advance(0, end)
    assert (truncated.value.wanted, truncated.value.first) == (3, 5)


async def test_records_that_the_view_has_may_go(ground: Ground) -> None:
    """A view that is past what is gone from the log's front goes on."""
    end = await ground.append(*[saved("thread", f"{n}") for n in range(6)])
    await ground.applier().advance(0, 5)
    truncate(ground, first=5)
    assert await ground.applier().advance(0, end) == end


async def test_newer_view_is_left_alone(ground: Ground) -> None:
    """The view of a newer fold is neither read nor replaced."""
    end = await ground.append(saved("thread", "1"))
    await begin(ground, fold_version=FOLD_VERSION + 1)
    for may_replace in (False, True):
        with pytest.raises(ViewVersionError, match="upgrade"):
            await ground.applier().advance(0, end, may_replace=may_replace)
    assert await ground.reached() == 0


async def test_older_view_is_replaced_by_projectors_only(ground: Ground) -> None:
    """A reader says what is wrong; a projector discards the view and makes it anew."""
    end = await ground.append(saved("thread", "1"))
    await begin(ground, fold_version=FOLD_VERSION - 1)
    with pytest.raises(ViewVersionError, match="rebuild"):
        await ground.applier().advance(0, end)
    assert await ground.applier().advance(0, end, may_replace=True) == end
    assert await ground.view.dump(0) == await rebuilt(ground)


def truncate(ground: Ground, *, first: int) -> None:
    """Let the log begin at an offset, as after retention."""

    def gone(_: LogIdentity) -> LogIdentity:
        raise LogTruncatedError(0, wanted=0, first=first)

    ground.log.first = first
    ground.log.log_identity = gone


async def begin(ground: Ground, *, fold_version: int) -> None:
    """Begin a view of another fold version."""
    identity = await ground.log.identity(0)
    start = Progress(b"8 bytes.", fold_version, identity, 0, NO_EVENT)
    assert await ground.view.begin(0, start)
