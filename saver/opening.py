"""Opening what a checkpoint holds sealed. Pure, no I/O."""

from __future__ import annotations

from contextlib import suppress

from eventstore.events import Payload
from projector.values import unpack_value
from projector.view import StoredCheckpoint

from .errors import SaverError
from .place import Place
from .sealed import SEALED, event_of
from .serde import Serde, anywhere, body_spot, channel_spot


def opened_values(serde: Serde, thread_id: str, stored: StoredCheckpoint) -> dict[str, Payload]:
    """Return the sealed values of a checkpoint, those that can be opened."""
    found: dict[str, Payload] = {}
    if serde.sealer is None:
        return found
    for channel, value in stored.values.items():
        payload = None if value.data is None else unpack_value(value.data)[0]
        if payload is not None and payload.type == SEALED:
            # Who reads it meets the error; here it is only left alone.
            with suppress(SaverError):
                spot = channel_spot(thread_id, stored.namespace, channel)
                found[channel] = serde.opened(payload, spot)
    return found


def sources_of(stored: StoredCheckpoint) -> dict[str, bytes]:
    """Return which event sealed each value of a checkpoint that is sealed."""
    sources: dict[str, bytes] = {}
    for channel, value in stored.values.items():
        if value.data is not None:
            payload, _ = unpack_value(value.data)
            if payload.type == SEALED:
                sources[channel] = event_of(payload.data)
    return sources


def body_of(serde: Serde, thread_id: str, stored: StoredCheckpoint) -> Payload:
    """Return a checkpoint's body, opened where it was sealed beside the values that it has."""
    row = stored.row
    if serde.sealer is None and row.body.type != SEALED:
        # As `opened` would; where it belongs need not be known, which costs a digest.
        return anywhere(row.body)
    spot = body_spot(
        Place(thread_id, stored.namespace, stored.checkpoint_id),
        row.parent_id,
        {name: version for name, (version, _) in row.channels.items()},
        sources_of(stored) if row.body.type == SEALED else {},
    )
    return serde.opened(row.body, spot)
