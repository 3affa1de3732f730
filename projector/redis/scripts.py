"""The scripts, as they stand in `scripts/`, each with the common parts in front of it."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files

_FOLDER = files(__package__) / "scripts"


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the name under which the server keeps it."""

    text: bytes
    sha: bytes

    @classmethod
    def of(cls, *names: str) -> Script:
        """Return the script made of these parts."""
        text = "\n".join(map(_text, names)).encode()
        # Redis names a script by the SHA-1 of its text.
        return cls(text, sha1(text, usedforsecurity=False).hexdigest().encode())


LOAD = Script.of("prelude", "load")
APPLY = Script.of("prelude", "apply")
BEGIN = Script.of("begin")
DISCARD = Script.of("discard")
RETIRED = Script.of("prelude", "retired")
DEAD = Script.of("prelude", "dead")
BURY = Script.of("prelude", "bury")

THREAD = Script.of("prelude", "reading", "thread")
CHECKPOINT = Script.of("prelude", "reading", "checkpoint")
LIST = Script.of("prelude", "reading", "list")
CELLS = Script.of("prelude", "reading", "cells")
HISTORY = Script.of("prelude", "reading", "history")
THREADS = Script.of("prelude", "reading", "threads")
RUN = Script.of("prelude", "reading", "run")
