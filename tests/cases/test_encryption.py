"""With an `EncryptedSerializer` all comes back, and nothing of it is readable."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph.checkpoint.kafka import (
    CipherMissingError,
    InvalidConfigError,
    PieceUnreadableError,
    PlainValueError,
    RotatingCipher,
    UnknownKeyError,
    aes_cipher,
)
from projector.layout import ROWS, VALUES, Row
from tests.wirings import Caller, Form, Savers, Store

from .sealing import AES, KEY, grow, with_serializer
from .test_values import every_kind_comes_back
from .thread import Thread

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    # LangGraph warns of types that are not on its list of allowed ones.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

MARKS = ["mark-of-a-value", "mark-of-a-write", "mark-of-a-body", "mark-of-metadata"]


class Xor(CipherProtocol):
    """Turns every byte over, and knows no integrity. Use a real one."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "xor", bytes(255 - byte for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return bytes(255 - byte for byte in ciphertext)


@asynccontextmanager
async def opened(savers: Savers, **settings: Any) -> AsyncGenerator[Caller]:
    """Open a saver on a store of its own."""
    async with AsyncExitStack() as stack:
        yield await savers.alone(Store.SQLITE_MEMORY, Form.AWAITED, stack, **settings)


async def test_every_kind_of_value_comes_back(sealed: Caller) -> None:
    """Channels and pending writes, of the thread and of a copy, as InMemorySaver gives them."""
    await every_kind_comes_back(sealed)


async def test_a_growing_channel_comes_back_at_every_version(sealed: Caller) -> None:
    """Each version is opened from the entries that it is made of; in a copy, and in forks, too."""
    thread, copied = Thread(sealed), Thread(sealed)
    versions = await grow(thread, 40)
    await thread.put(100, {"messages": versions[9] + ["fork"]}, parent=10)
    await sealed.copy_thread(thread.id, copied.id)
    for here in (thread, copied):
        assert (await here.values(100))["messages"] == [*versions[9], "fork"]
        for number in (1, 2, 17, 40):
            assert (await here.values(number))["messages"] == versions[number - 1]


async def test_what_was_forgotten_is_extended_once_it_is_read(sealed: Caller) -> None:
    """A saver that starts anew opens the parent, and goes on with its chain."""
    thread = Thread(sealed)
    versions = await grow(thread, 3)
    sealed.saver._engine.lineage.forget_thread(thread.id)
    longer = [*versions[-1], "more"]
    await thread.put(4, {"messages": longer}, parent=3)
    assert (await thread.values())["messages"] == longer
    (last, *_) = sorted((await sealed.cells(thread.id, VALUES)).items(), reverse=True)
    assert len(last[1]) < 1_000


async def test_nothing_is_readable(savers: Savers) -> None:
    """No byte of values, writes, body, and of metadata where that is chosen, is in log or view."""
    for chosen in (False, True):
        async with opened(savers, serde=AES, seal_metadata=chosen) as caller:
            thread = Thread(caller, "mark-of-thread")
            await put_marks(thread)
            found = await thread.found()
            assert found.checkpoint["updated_channels"] == [MARKS[2]]
            assert found.metadata.get("user") == MARKS[3]
            assert await thread.numbers(filter={"user": MARKS[3]}) == [2]
            stored = await caller.stored_bytes()
            assert b"mark-of-thread" in stored
            expected = [False, False, False, not chosen]
            assert [mark.encode() in stored for mark in MARKS] == expected
    async with opened(savers) as caller:
        await put_marks(Thread(caller))
        stored = await caller.stored_bytes()
        assert all(mark.encode() in stored for mark in MARKS)


async def put_marks(thread: Thread) -> None:
    """Put one text that can be searched for into each part of a checkpoint."""
    value = [MARKS[0]] * 200
    await thread.put(1, {"x": value})
    config = await thread.put(2, {"x": [*value, MARKS[0]]}, parent=1, metadata={"user": MARKS[3]})
    found = await thread.found(2)
    found.checkpoint["updated_channels"] = [MARKS[2]]
    told: Any = {"user": MARKS[3], "run_id": "run"}
    await thread.caller.put(thread.config(1), found.checkpoint, told, {"x": 2})
    await thread.write(config, [("x", MARKS[1])])


async def test_runs_are_found_by_their_readable_id(savers: Savers) -> None:
    """With sealed metadata `run_id` stays, and any key that is chosen; all others are sealed."""
    async with opened(
        savers, serde=AES, seal_metadata=True, readable_metadata=frozenset({"source"})
    ) as caller:
        thread = Thread(caller)
        await thread.put(1, metadata={"run_id": "one"})
        await thread.put(2, parent=1, metadata={"run_id": "two"})
        for data in (await caller.cells(thread.id, ROWS)).values():
            assert set(Row.unpack(data).metadata) == {"run_id", "source"}
        await caller.delete_for_runs(["one"])
        assert await thread.numbers() == [2]
        assert (await caller.threads(filter={"step": 2})).threads[0].metadata.get("step") == 2


async def test_sealing_metadata_needs_a_cipher(savers: Savers) -> None:
    """A setting that cannot be kept is refused when the saver is made."""
    with pytest.raises(InvalidConfigError, match="seal_metadata"):
        async with opened(savers, seal_metadata=True):
            pass
    with pytest.raises(ValueError, match="readable_metadata means nothing"):
        async with opened(savers, serde=AES, readable_metadata=frozenset({"a"})):
            pass


async def test_a_plain_record_is_refused_unless_asked_for(sealed: Caller) -> None:
    """A strict reader names what is stored in plain, in every call that shows it. B68."""
    thread = Thread(with_serializer(sealed, None))
    await thread.put(1, {"x": "plain"}, metadata={"o": {1}})
    await thread.write(1, [("y", "plain")])
    await thread.put(2, {}, {"y": 2}, parent=1)
    strict = Thread(sealed, thread.id)
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("channel:x", lambda: strict.get(1)),
        ("body:.*", strict.numbers),
        ("write:task:0:y", lambda: strict.history(2, "y")),
        ("channel:x", lambda: sealed.copy_thread(thread.id, "copy")),
        ("metadata:.*:o", lambda: strict.numbers(filter={"o": {1}})),
    ]
    for slot, call in calls:
        with pytest.raises(PlainValueError, match=f"'{slot}' of thread '{thread.id}'"):
            await call()


async def test_a_plain_thread_goes_on_encrypted(savers: Savers) -> None:
    """Who opts in reads it; what is put then is sealed, and a copy is sealed altogether. B68."""
    async with opened(savers, serde=AES, reads_plain=True) as caller:
        plain = with_serializer(caller, None)
        before, thread, copied = Thread(plain), Thread(caller), Thread(caller)
        thread.id = before.id
        texts = ["plain"] * 200
        await before.put(1, {"x": texts, "same": 1})
        await thread.put(2, {"x": [*texts, "s"], "same": 1}, parent=1, changed=["x"])
        assert await thread.values() == {"x": [*texts, "s"], "same": 1}
        await caller.copy_thread(thread.id, copied.id)
        assert await copied.values(1) == {"x": texts, "same": 1}
        assert await copied.values(2) == await thread.values()
        assert all(
            b"plain" not in data for data in (await caller.cells(copied.id, VALUES)).values()
        )


async def test_a_sealed_thread_needs_the_cipher(sealed: Caller) -> None:
    """Without one there is a clear error, never bytes in place of a value."""
    thread = Thread(sealed)
    await thread.put(1, {"x": 1})
    plain = Thread(with_serializer(sealed, None), thread.id)
    for call in (plain.get, plain.numbers, lambda: plain.caller.copy_thread(thread.id, "copy")):
        with pytest.raises(CipherMissingError, match=f"'channel:x' of thread '{thread.id}'"):
            await call()


async def test_what_langgraph_encrypted_itself_is_read(sealed: Caller) -> None:
    """Payloads with a cipher in their type, from before there were seals, are read and copied."""

    class Older(JsonPlusSerializer):
        """Writes as `EncryptedSerializer` does where nobody seals."""

        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            return AES.dumps_typed(obj)

    older = Thread(with_serializer(sealed, Older()))
    await older.put(1, {"x": ["old"] * 300})
    thread, copied = Thread(sealed, older.id), Thread(sealed)
    await sealed.copy_thread(older.id, copied.id)
    for here in (thread, copied):
        assert await here.values() == {"x": ["old"] * 300}
    other = Thread(with_serializer(sealed, EncryptedSerializer(aes_cipher(b"o" * 32))), older.id)
    with pytest.raises(PieceUnreadableError, match="the cipher refused it"):
        await other.get()


async def test_keys_rotate(sealed: Caller) -> None:
    """Everything is written with the newest key and read with any known one."""
    old, new = aes_cipher(b"o" * 32), aes_cipher(b"n" * 32)
    first = with_serializer(sealed, EncryptedSerializer(RotatingCipher(("1", old))))
    second = with_serializer(sealed, EncryptedSerializer(RotatingCipher(("2", new), {"1": old})))
    thread = Thread(first)
    versions = await grow(thread, 3)
    later = Thread(second, thread.id)
    assert (await later.values())["messages"] == versions[-1]
    await later.put(4, {"messages": [*versions[-1], "more"]}, parent=3)
    assert (await later.values())["messages"] == [*versions[-1], "more"]
    with pytest.raises(UnknownKeyError, match="'2'; known are '1'"):
        await thread.get()
    assert (await thread.values(3))["messages"] == versions[-1]


async def test_another_key_opens_nothing(sealed: Caller) -> None:
    """A wrong key is an error that names the value."""
    thread = Thread(sealed)
    await thread.put(1, {"x": 1})
    wrong = with_serializer(sealed, EncryptedSerializer(aes_cipher(b"w" * 32)))
    with pytest.raises(PieceUnreadableError, match=f"'channel:x' of thread '{thread.id}'"):
        await Thread(wrong, thread.id).get()


async def test_any_cipher_will_do(sealed: Caller) -> None:
    """One without integrity gives all back too; then the seals catch accidents only."""
    thread = Thread(with_serializer(sealed, EncryptedSerializer(Xor())))
    versions = await grow(thread, 5)
    await thread.write(5, [("messages", "w")])
    assert (await thread.values())["messages"] == versions[-1]
    assert await thread.pending() == [("task", "messages", "w")]


async def test_delta_histories_are_opened(sealed: Caller) -> None:
    """Writes and seed of ancestors, also once those were pruned, and in a copy of what is left."""
    thread, copied = Thread(sealed), Thread(sealed)
    await thread.put(1, {"m": ["seed"] * 200}, {"m": 1})
    await thread.write(1, [("m", "one")])
    await thread.put(2, {}, {"m": 2}, parent=1)
    await thread.write(2, [("m", "two")])
    await thread.put(3, {}, {"m": 3}, parent=2)
    expected = (["one", "two"], ["seed"] * 200)
    assert await thread.history(3, "m") == expected
    await sealed.prune([thread.id])
    await sealed.copy_thread(thread.id, copied.id)
    for here in (thread, copied):
        assert await here.history(3, "m") == expected


async def test_a_lost_view_is_built_again_without_a_key(sealed: Caller) -> None:
    """Whoever folds the log needs none; what comes back is the same."""
    thread = Thread(with_serializer(sealed, EncryptedSerializer(aes_cipher(b"u" * 32))))
    versions = await grow(thread, 5)
    await sealed.lose_view()
    assert (await thread.values())["messages"] == versions[-1]


async def test_clones_seal_and_open_alike(sealed: Caller) -> None:
    """`with_allowlist` makes a serializer of its own around the same cipher."""
    inner = JsonPlusSerializer(allowed_msgpack_modules=None)
    strict = with_serializer(sealed, EncryptedSerializer(KEY, inner))
    clone: Any = strict.saver.with_allowlist([("some.module", "Thing")])
    assert clone.serde is not strict.saver.serde
    thread = Thread(strict)
    cloned = Thread(Caller(clone, sealed.wiring, sealed.form), thread.id)
    versions = await grow(thread, 3)
    await cloned.put(4, {"messages": [*versions[-1], "more"]}, parent=3)
    assert (await thread.values())["messages"] == [*versions[-1], "more"]


async def test_large_values_come_back(sealed: Caller) -> None:
    """Of several megabytes: sealed off the event loop, in several pieces, in chunks of the log."""
    thread = Thread(sealed)
    large = bytes(range(256)) * 12_000
    config = await thread.put(1, {"x": large})
    await thread.write(config, [("x", large)])
    assert await thread.values() == {"x": large}
    assert await thread.pending() == [("task", "x", large)]
