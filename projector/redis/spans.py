"""Which part of which index a listing reads. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from projector.layout import IDS, NEWEST, TIMELINE, namespace_prefix, ordered
from projector.view import Selection


@dataclass(frozen=True, slots=True)
class Span:
    """A range of an index, from `start` in the direction of `command` to `stop`."""

    index: bytes
    """`IDS` or `TIMELINE` of the thread, or `NEWEST`."""
    thread: bytes | None
    namespace: str | None
    command: bytes
    start: bytes
    stop: bytes


def span_of(selection: Selection, cursor: bytes | None) -> Span:
    """Return the span of a selection, what the cursor has passed left out."""
    thread, namespace = selection.thread, selection.namespace
    checkpoint_id, before = selection.checkpoint_id, selection.before
    index, prefix, end = TIMELINE if thread is not None else NEWEST, b"", b"\0"
    encoded: Callable[[str], bytes] = ordered
    if thread is not None and namespace is not None:
        index, prefix, end = IDS, namespace_prefix(namespace), b""
        encoded = str.encode
    # No text in UTF-8 holds 0xff, so it stands behind all ids of a namespace.
    start, stop = (b"(" + prefix + b"\xff", b"[" + prefix) if prefix else (b"+", b"-")
    if checkpoint_id is not None:
        # In the other two indexes a NUL follows the id.
        exact = prefix + encoded(checkpoint_id) + end
        start = b"[" + exact if not end else b"(" + exact[:-1] + b"\1"
        stop = b"[" + exact
        if before is not None and checkpoint_id >= before:
            start, stop = b"-", b"+"
    elif before is not None:
        start = b"(" + prefix + encoded(before)
    span = Span(index, thread, namespace, b"ZREVRANGEBYLEX", start, stop)
    return span if cursor is None else replace(span, start=b"(" + cursor)


def export_span(thread: bytes, cursor: bytes | None) -> Span:
    """Return the span of an export."""
    start = b"-" if cursor is None else b"(" + cursor
    return Span(TIMELINE, thread, None, b"ZRANGEBYLEX", start, b"+")
