"""Listing checkpoints: order, and every way to choose some of them."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest

from tests.wirings import Caller, Form, Savers, Store

from .thread import Thread, number_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_before_ends_the_listing_in_front_of_an_id(caller: Caller) -> None:
    """`before` takes any id, also one that does not exist. B39."""
    thread = Thread(caller)
    for number in (1, 2, 4):
        await thread.put(number)
    assert await thread.numbers(before=4) == [2, 1]
    assert await thread.numbers(before=2) == [1]
    assert await thread.numbers(before=3) == [2, 1]


async def test_the_root_namespace_is_not_any_namespace(caller: Caller) -> None:
    """The empty namespace names the root alone, a missing one all of them. B40."""
    thread = Thread(caller)
    await thread.put(1)
    await thread.put(2, ns="sub:1")
    assert await thread.numbers(ns="") == [1]
    assert await thread.numbers(ns=None) == [2, 1]


async def test_any_metadata_key_can_be_filtered_by(caller: Caller) -> None:
    """A user's own key finds exactly the checkpoints that have the value. B41."""
    one, other, run = Thread(caller), Thread(caller), uuid.uuid4().hex
    await one.put(1, metadata={"tenant": "acme", "test": run})
    await other.put(2, metadata={"tenant": "globex", "test": run})
    found = await caller.list(None, filter={"tenant": "acme", "test": run})
    assert [item.config for item in found] == [one.config(1)]


async def test_every_form_lists_the_same(savers: Savers) -> None:
    """Config, filter, `before` and `limit` mean the same in every form of the method. B17, B43."""
    for store in Store:
        thread = Thread(await savers.shared(store, Form.AWAITED))
        for number in range(1, 7):
            source = "input" if number == 1 else "loop"
            place = "sub:1" if number % 2 else ""
            await thread.put(number, {"x": number}, ns=place, metadata={"source": source})
        forms = [Form.AWAITED, Form.FROM_OTHER_THREAD]
        if store is not Store.SQLITE_MEMORY:
            forms.append(Form.TWIN)
        for named, ns, chosen, before, limit in itertools.product(
            (None, 2), (None, "", "sub:1"), (None, {"source": "loop"}), (None, 5), (None, 0, 2)
        ):
            answers: list[Any] = []
            for form in forms:
                saver = await savers.shared(store, form)
                answers.append(
                    await saver.list(
                        thread.config(named, ns),
                        filter=chosen,
                        before=None if before is None else thread.config(before),
                        limit=limit,
                    )
                )
            assert all(answer == answers[0] for answer in answers)


async def test_a_boolean_is_no_text(caller: Caller) -> None:
    """A filter's True matches True and not the text. B44."""
    thread = Thread(caller)
    await thread.put(1, metadata={"k": True})
    await thread.put(2, metadata={"k": "true"})
    assert await thread.numbers(filter={"k": True}) == [1]
    assert await thread.numbers(filter={"k": "true"}) == [2]


async def test_a_limit_counts_what_matches(caller: Caller) -> None:
    """The filter comes before the limit, and so does `before`. B47, B48."""
    thread = Thread(caller)
    for number in range(1, 6):
        await thread.put(number, metadata={"source": "input" if number == 1 else "loop"})
    assert await thread.numbers(filter={"source": "input"}, limit=1) == [1]
    assert await thread.numbers(filter={"source": "loop"}, before=5, limit=2) == [4, 3]


async def test_everything_is_listed_newest_first(lone_caller: Caller) -> None:
    """Without any restriction, all threads are merged by their checkpoints' ids. B49."""
    one, other = Thread(lone_caller), Thread(lone_caller)
    for number in (1, 4, 5):
        await one.put(number)
    for number in (2, 3, 6):
        await other.put(number)
    found = await lone_caller.list(None)
    assert [number_of(item.config) for item in found] == [6, 5, 4, 3, 2, 1]
    assert len(await lone_caller.list(None, limit=4)) == 4


async def test_an_empty_store_lists_nothing(lone_caller: Caller) -> None:
    """A store that nothing was put into has no checkpoints, no threads and no history."""
    thread = Thread(lone_caller)
    assert await lone_caller.list(None) == []
    assert await thread.numbers() == []
    assert await thread.get() is None
    assert (await lone_caller.threads()).threads == []
    assert await lone_caller.count_threads() == 0


async def test_namespaces_are_merged_newest_first(caller: Caller) -> None:
    """A thread's listing goes by id over all of its namespaces. S16."""
    thread = Thread(caller)
    await thread.put(1)
    await thread.put(2, ns="s:1")
    await thread.put(3, ns="s:1|x:2")
    assert await thread.numbers(ns=None) == [3, 2, 1]
    assert await thread.numbers(ns=None, limit=1) == [3]


async def test_a_limit_of_nothing_lists_nothing(caller: Caller) -> None:
    """A limit of 0 is a limit; None is none. S11."""
    thread = Thread(caller)
    await thread.put(1)
    assert await thread.numbers(limit=0) == []
    assert await thread.numbers(limit=-1) == []
    assert await thread.numbers(limit=None) == [1]


async def test_no_listing_ends_at_a_page(caller: Caller) -> None:
    """More checkpoints than one request answers are all listed, and all deleted. S09."""
    thread = Thread(caller)
    for number in range(1, 251):
        await thread.put(number, metadata={"odd": bool(number % 2)})
    assert await thread.numbers() == [*range(250, 0, -1)]
    assert await thread.numbers(filter={"odd": True}) == [*range(249, 0, -2)]
    assert await thread.numbers(before=130, limit=120) == [*range(129, 9, -1)]
    await caller.delete_thread(thread.id)
    assert await thread.numbers() == []


async def test_a_listing_names_one_checkpoint_by_id(caller: Caller) -> None:
    """A config with an id lists that checkpoint, in every namespace that has it."""
    thread = Thread(caller)
    await thread.put(1)
    await thread.put(2)
    await thread.put(2, ns="sub:1")
    config = thread.config(2, None)
    assert [number_of(item.config) for item in await caller.list(config)] == [2, 2]
    assert len(await caller.list(thread.config(2))) == 1


async def test_a_missing_key_equals_none_in_a_filter(caller: Caller) -> None:
    """As in InMemorySaver, a filter for None matches what has no such key."""
    thread = Thread(caller)
    await thread.put(1)
    await thread.put(2, metadata={"k": 1})
    assert await thread.numbers(filter={"k": None}) == [1]
