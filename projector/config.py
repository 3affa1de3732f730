"""ProjectorConfig: everything that can be set about a projector. Durations are in seconds.

Where the log and the view are is not said here: they are handed in.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ProjectorConfig(BaseModel):
    """How a projector works. Frozen; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    restore_concurrency: int = Field(default=4, ge=1, le=1_000)
    """How many partitions are restored at the same time."""

    check_interval: Seconds = 1.0
    """How often, in seconds, a projector looks whether views were lost or moved by others."""

    halt_retry: Seconds = 5.0
    """After how long, in seconds, a partition that halted with an error is tried again."""

    min_backoff: Seconds = 0.1
    """The first pause, in seconds, after the log or the view could not be reached."""

    max_backoff: Seconds = 5.0
    """The longest pause, in seconds; pauses double up to it."""

    tidy_interval: Seconds = 1.0
    """How often, in seconds, an idle partition is swept and its deleted records are erased."""

    sweep_limit: int = Field(default=200, ge=1, le=1_000)
    """How many unreachable entries one step of sweeping removes; readers wait for a step to end."""

    erase: bool = True
    """Whether the records of deleted threads are erased from the log, and chunks of no event."""

    erase_interval: Seconds = 60.0
    """How often, in seconds, all threads are looked through for what is to be erased."""

    nudge_after: Seconds = 7 * 24 * 3600.0 + 3600.0
    """How old, in seconds, a partition's last record must be before something is appended for Kafka
    to compact it; a little more than the topic's `max.compaction.lag.ms`."""

    @model_validator(mode="after")
    def _backoffs_agree(self) -> Self:
        if self.min_backoff > self.max_backoff:
            raise ValueError("min_backoff must not be longer than max_backoff")
        return self
