"""Why a call was refused for want of room, and whether another would be.

Plain values; sizes are in bytes, times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class FitVerdict(str, Enum):
    """What would come of a request for memory."""

    UNSPECIFIED = "unspecified"
    """Told by a newer daemon."""
    NOW = "now"
    AFTER_RECLAIM = "after reclaim"
    """Once what nobody uses was taken back: the call does that and waits for it."""
    WHEN_RELEASED = "when released"
    """It would be refused until somebody lets go of what is held."""
    NEVER = "never"
    """It is more than all of the arena."""
    DEVICE_LOST = "device lost"
    CORDONED = "cordoned"
    """An operator keeps new models and sessions off the device."""


@dataclass(frozen=True)
class DeviceFit:
    """What one device says of a request for memory."""

    device: str
    verdict: FitVerdict
    needed: int
    """What was asked about, rounded up as it would be granted."""
    capacity: int
    """Of the arena."""
    free: int
    largest_now: int
    """That would be granted now; for a buffer, of whichever kind."""
    largest: int
    """Likewise once what nobody uses was taken back."""
    explanation: str


@dataclass(frozen=True)
class Refusal:
    """A call that was refused for want of room."""

    refusal_id: int
    """As in the error's value `refusal_id`."""
    age: float
    method: str
    session_id: int
    """Who called, as it named itself."""
    program: str
    instance: str
    reason: str
    message: str
    values: Mapping[str, str]
    now: DeviceFit | None
    """The same need on the same device now; None if none can be told."""
