"""The benchmarks that go through whole chats and large states, on very small ones."""

import asyncio
import random
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from typer.testing import CliRunner

from benchmarks import chat, messages, sizes, stores
from benchmarks.__main__ import app
from benchmarks.graphs import KINDS
from benchmarks.messages import RANDOM, WORDS, script_of, serialized
from benchmarks.savers import KAFKA_INSIDE, MEMORY, POSTGRES, SQLITE, opened_at
from benchmarks.states import BYTES, LIST, STATES, put, state_of

_TURNS = 11


@pytest.fixture
def servers(
    kafka_bootstrap: str, redis_url: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The servers that the tests found, for the benchmarks too."""
    monkeypatch.setenv("LGK_KAFKA", kafka_bootstrap)
    monkeypatch.setenv("LGK_REDIS", redis_url)
    monkeypatch.setenv("LGK_POSTGRES", postgres_url)


@pytest.mark.parametrize("text", [WORDS, RANDOM])
def test_every_message_takes_what_was_asked_for(text: str) -> None:
    script = script_of(5, size=600, kind=text)
    said = [*script.questions, *script.answers]
    assert {len(serialized(message)) for message in said} == {600}
    assert len({message.text for message in said}) == 10
    assert script == script_of(5, size=600, kind=text)


def test_random_text_cannot_be_compressed_as_words_can() -> None:
    words, noise = (script_of(5, size=600, kind=text).compressed for text in (WORDS, RANDOM))
    assert words < noise


def test_impossible_messages_are_refused() -> None:
    with pytest.raises(ValueError, match="exactly 20 bytes"):
        script_of(1, size=20, kind=WORDS)
    with pytest.raises(ValueError, match="not 'prose'"):
        script_of(1, size=600, kind="prose")
    with pytest.raises(ValueError, match="not 'set'"):
        state_of(1, kind="set")


@pytest.mark.parametrize("length", [0, 1, 2, 1_000, 1_000_000])
@pytest.mark.parametrize("text", [WORDS, RANDOM])
def test_text_has_the_length_that_was_asked_for(text: str, length: int) -> None:
    found = messages.text_of(length, kind=text, random=random.Random(1))
    assert len(found) == len(found.encode()) == length


async def test_a_files_log_and_view_are_measured_apart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'measured.db'}"
    async with opened_at(SQLITE, url) as saver:
        before = await stores.footprint(url)
        await put(saver, "thread", state_of(1_000_000, kind=BYTES))
        await saver.aget_tuple({"configurable": {"thread_id": "thread"}})
        grown = await stores.footprint(url) - before
    assert grown.log is not None
    assert grown.view is not None
    assert grown.log > 900_000
    assert grown.view > 900_000
    assert grown.whole == grown.log + grown.view


async def test_a_saver_that_holds_another_chat_is_found_out() -> None:
    script = script_of(4, size=600, kind=WORDS)
    other = script_of(5, size=600, kind=WORDS)
    talks: list[chat.Talk] = []
    for name, said in ((MEMORY, script), (SQLITE, other)):
        saver = InMemorySaver()
        talk = chat.Talk(name, saver, "", KINDS["one"].build(said).compile(checkpointer=saver))
        await chat.hold([talk], said)
        talks.append(talk)
    await chat.verify(talks[:1])
    with pytest.raises(AssertionError, match="SQLite file holds another chat"):
        await chat.verify(talks)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", KINDS)
def test_a_short_chat_is_measured_on_every_saver(servers: None, kind: str) -> None:
    """The benchmark itself fails when a saver holds another chat than InMemorySaver."""
    script = script_of(_TURNS, size=600, kind=WORDS)
    found = asyncio.run(chat.measure(KINDS[kind], script, repeats=1))
    stored = {each.saver: each.stored for each in found.savers}
    assert set(stored) == {POSTGRES, KAFKA_INSIDE, SQLITE}
    assert all(each.whole for each in stored.values())
    assert all(stored[name].log and stored[name].view for name in (KAFKA_INSIDE, SQLITE))
    assert found.messages >= 2 * 600 * _TURNS
    assert found.handed_over > found.messages


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", STATES)
def test_a_state_is_measured_on_every_saver(servers: None, kind: str) -> None:
    large = asyncio.run(sizes.large(size=100_000, kind=kind, repeats=2))
    for each in large:
        assert each.refusal is None
        assert len(each.puts) == len(each.gets) == len(each.first_gets) == 2
    small = asyncio.run(sizes.small(size=100_000, kind=kind, seconds=0.2, repeats=2))
    assert [each.large for each in small] == [0, 2] * 3


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "command",
    [
        ["chat", "--turns", "3", "--kinds", "one", "--random"],
        ["sizes", "--megabytes", "0.1", "--state", LIST, "--repeats", "1", "--seconds", "0.2"],
    ],
    ids=["chat", "sizes"],
)
def test_the_command_prints_its_tables(servers: None, command: list[str]) -> None:
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0
    assert "AsyncPostgresSaver" in result.output
