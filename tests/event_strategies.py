"""Hypothesis strategies for events of every type. A new type gets its line in `events`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore.events import (
    EMPTY,
    EVENT_ID_BYTES,
    INHERITED,
    ChannelState,
    ChannelValue,
    CheckpointSaved,
    CheckpointsDeleted,
    ChunkedPayload,
    ChunkSaved,
    Event,
    Extended,
    Full,
    LogNudged,
    LogStarted,
    NewEvent,
    Payload,
    Referenced,
    ThreadCopied,
    ThreadDeleted,
    ThreadErased,
    Write,
    WritesSaved,
    chunked_payloads,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = st.binary(min_size=EVENT_ID_BYTES, max_size=EVENT_ID_BYTES)
naturals = st.integers(0, 2**63 - 1)
payloads = st.builds(Payload, texts, st.binary(max_size=400))
chunked = st.builds(
    ChunkedPayload,
    texts,
    st.just(b""),
    ids,
    st.lists(st.tuples(naturals, naturals), max_size=4).map(tuple),
)
versions = st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), texts)
# Outside of the names that the format uses or reserves.
unknown_fields = st.dictionaries(texts.map("x-{}".format), st.integers(0, 9), max_size=2)

plain: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False),
        texts,
        st.binary(max_size=20),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)

channel_values: st.SearchStrategy[ChannelValue] = st.one_of(
    st.just(INHERITED),
    st.just(EMPTY),
    st.builds(Referenced, ids, naturals),
    st.builds(Full, payloads, ids),
    st.builds(
        Extended,
        ids,
        naturals,
        texts,
        st.binary(max_size=9),
        naturals,
        naturals,
        st.binary(max_size=50),
        ids,
        st.none() | naturals,
    ),
    chunked,
)
any_payload = payloads | chunked

events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        CheckpointSaved,
        namespace=texts,
        checkpoint_id=texts,
        parent_id=st.none() | texts,
        parent_event=st.none() | ids,
        incarnation=naturals,
        channels=st.dictionaries(
            texts, st.builds(ChannelState, versions, channel_values), max_size=4
        ),
        body=any_payload,
        metadata=st.dictionaries(texts, plain, max_size=3),
        metadata_payloads=st.dictionaries(texts, any_payload, max_size=2),
        copy_id=st.none() | ids,
        unknown=unknown_fields,
        chunked_at=st.none() | naturals,
    ),
    st.builds(
        WritesSaved,
        texts,
        texts,
        texts,
        texts,
        naturals,
        st.lists(st.builds(Write, st.integers(-10, 1_000), texts, any_payload), max_size=4).map(
            tuple
        ),
        st.none() | ids,
        unknown_fields,
        st.none() | naturals,
    ),
    st.builds(ChunkSaved, naturals, st.binary(max_size=400), unknown_fields),
    st.builds(ThreadDeleted, unknown_fields),
    st.builds(
        CheckpointsDeleted,
        naturals,
        st.lists(st.tuples(texts, texts), max_size=4).map(tuple),
        st.none() | ids,
        unknown_fields,
    ),
    st.builds(ThreadCopied, ids, texts, naturals, naturals, unknown_fields),
    st.builds(ThreadErased, ids, naturals, unknown_fields),
    st.builds(LogStarted, ids, st.integers(1, 100_000), unknown_fields),
    st.builds(LogNudged, unknown_fields),
)


@st.composite
def new_events(draw: st.DrawFn) -> NewEvent:
    """Draw an event with its place in a call; it names a thread where its type does."""
    event = draw(events)
    if isinstance(event, CheckpointSaved | WritesSaved) and chunked_payloads(event):
        event = replace(event, chunked_at=draw(naturals))
    is_threadless = isinstance(event, ThreadErased | LogStarted | LogNudged)
    thread_id = None if is_threadless else draw(texts)
    return NewEvent(thread_id, event, draw(ids), draw(st.integers(0, 1_000)))
