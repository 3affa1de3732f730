"""The messages of a chat, each of one serialized size, and the text that states are made of."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pydoc_data.topics import topics
from random import Random
from typing import TypeVar
from zlib import compress

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

M = TypeVar("M", bound=BaseMessage)

SEED = 2024
WORDS = "words"
RANDOM = "random"

_WORDS = re.findall(r"[A-Za-z]+", " ".join(topics.values()))
"""Those of Python's own help: English, each as often as it stands there."""
_LONGEST_RUN = 100_000
_TRIES = 8


@dataclass(frozen=True, slots=True)
class Script:
    """What is said in each turn; the same objects for every saver."""

    questions: tuple[HumanMessage, ...]
    drafts: tuple[AIMessage, ...]
    """The first half of each answer, under the answer's id."""
    answers: tuple[AIMessage, ...]

    @property
    def compressed(self) -> float:
        """Return what share of a message zlib leaves."""
        return _left([serialized(message) for message in (*self.questions, *self.answers)])


def script_of(turns: int, *, size: int, kind: str) -> Script:
    """Write a chat in which each message takes `size` bytes as LangGraph serializes it.

    Raises:
        ValueError: No message is of that size, or there is no such kind of text.
    """
    random = Random(SEED)
    questions: list[HumanMessage] = []
    drafts: list[AIMessage] = []
    answers: list[AIMessage] = []
    for turn in range(1, turns + 1):
        asked, told = (text_of(size, kind=kind, random=random) for _ in range(2))
        questions.append(_fitted(HumanMessage, f"question-{turn:05d}", asked, size))
        answer = _fitted(AIMessage, f"answer-{turn:05d}", told, size)
        text = str(answer.text)
        drafts.append(AIMessage(text[: len(text) // 2], id=answer.id))
        answers.append(answer)
    return Script(tuple(questions), tuple(drafts), tuple(answers))


def text_of(length: int, *, kind: str, random: Random) -> str:
    """Return so many characters of ASCII.

    Raises:
        ValueError: There is no such kind of text.
    """
    if kind == RANDOM:
        return b64encode(random.randbytes(length * 3 // 4 + 3)).decode()[:length]
    if kind != WORDS:
        raise ValueError(f"text is {WORDS!r} or {RANDOM!r}, not {kind!r}")
    parts: list[str] = []
    left = length
    while left > 0:
        # Words have at least one letter and a space behind it, so these are enough or as many as
        # one list should have.
        run = " ".join(random.choices(_WORDS, k=min(left // 2 + 1, _LONGEST_RUN)))[:left]
        parts.append(run)
        left -= len(run) + 1
    return " ".join(parts).ljust(length, ".")


def serialized(value: object) -> bytes:
    """Return a value as LangGraph's own serializer stores it."""
    return JsonPlusSerializer().dumps_typed(value)[1]


def _fitted(make: Callable[..., M], message_id: str, text: str, size: int) -> M:
    length = size
    for _ in range(_TRIES):
        message = make(text[: max(length, 0)], id=message_id)
        excess = len(serialized(message)) - size
        if not excess:
            return message
        length -= excess
    raise ValueError(f"no message takes exactly {size} bytes")


def _left(messages: list[bytes]) -> float:
    """Return the share that remains when each message is compressed by itself."""
    return sum(len(compress(data)) for data in messages) / sum(map(len, messages))
