"""The history of delta channels: what the view found on the way up, in LangGraph's form."""

from __future__ import annotations

from langgraph.checkpoint.base import DeltaChannelHistory

from projector.errors import ValueUnresolvedError
from projector.view import StoredHistory

from .mapping import checked, pending, write_order
from .place import Place
from .serde import Serde, channel_spot


def history_of(
    serde: Serde,
    partition: int,
    place: Place,
    channel: str,
    found: StoredHistory,
) -> DeltaChannelHistory:
    """Return a channel's writes, oldest first, and its seed if the walk met one.

    Raises:
        ValueUnresolvedError: The walk met a value that is not in the view.
        PlainValueError, CipherMissingError, SealedPieceError, UnknownKeyError: As `Serde.opened`.
    """
    thread_id = place.thread_id
    if found.unresolved is not None:
        raise ValueUnresolvedError(
            thread_id, channel=channel, partition=partition, offset=0, missing=found.unresolved
        )
    history: DeltaChannelHistory = {
        "writes": [
            pending(serde, place, write)
            for _, writes in reversed(found.writes)
            for write in sorted(writes, key=write_order)
        ]
    }
    if found.seed is not None:
        seed = checked(partition, thread_id, channel, None, found.seed)
        history["seed"] = serde.loaded(seed, channel_spot(thread_id, place.namespace, channel))
    return history
