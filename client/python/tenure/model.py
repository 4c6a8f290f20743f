"""What the daemon says of models and of itself. Plain values; sizes are in bytes, times in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class ModelState(str, Enum):
    """What a model's memory is doing."""

    UNSPECIFIED = "unspecified"
    """No memory is held: the model was only validated."""
    LOADING = "loading"
    ACTIVE = "active"
    DRAINING = "draining"
    RETAINED = "retained"
    EMPTY = "empty"
    GONE = "gone"
    LOST = "lost"
    """The device is gone, and the content with it."""


class Reuse(str, Enum):
    """How a load got its memory, cheapest first."""

    UNSPECIFIED = "unspecified"
    """No memory was taken: the model was only validated."""
    RESIDENT = "resident"
    REVIVED = "revived"
    ADOPTED = "adopted"
    RECYCLED = "recycled"
    FRESH = "fresh"


@dataclass(frozen=True)
class Holder:
    """Who holds a model, as it named itself."""

    session_id: int
    program: str
    instance: str
    lease_count: int
    quarantined: bool
    """It can still read memory that it has no lease on any more."""


@dataclass(frozen=True)
class Model:
    """A model and the memory it has."""

    name: str
    revision: int
    state: ModelState
    device: str
    path: str
    architecture_key: str
    """Equal keys: the same tensors at the same offsets."""
    content_id: str
    region_id: int
    generation: int
    """Grows each time the region's content may change."""
    tensor_count: int
    tensor_bytes: int
    region_bytes: int
    pinned: bool
    holders: tuple[Holder, ...]
    expires_in: float | None
    """How long the bytes are still kept; None unless they wait for their end."""


@dataclass(frozen=True)
class TensorPlace:
    """One tensor and its place in the region."""

    name: str
    dtype: str
    """The file format's own name: "F32", "BF16"."""
    shape: tuple[int, ...]
    offset: int
    size: int
    """In bytes."""


@dataclass(frozen=True)
class UnloadResult:
    """What an unload did: freed + retained + deferred = the region's bytes."""

    state: ModelState
    freed_bytes: int
    retained_bytes: int
    deferred_bytes: int
    holders: tuple[Holder, ...]
    """Of the deferred bytes."""


@dataclass(frozen=True)
class ArenaLedger:
    """One arena's ledger at one moment.

    `capacity = leased + loading + idle + retained + quarantined + padding + free +
    stranded`
    """

    capacity: int
    leased: int
    loading: int
    idle: int
    retained: int
    quarantined: int
    padding: int
    stranded: int
    """Nobody's, but still pinned by somebody."""
    free: int
    cached: int
    pooled: int
    largest_free: int
    lost: int
    """Was capacity before the device was lost."""


@dataclass(frozen=True)
class DeviceStatus:
    """One device of the daemon."""

    name: str
    backend: str
    uuid: str
    total_bytes: int
    granule_bytes: int
    arenas: Mapping[str, ArenaLedger]
    segments_created: int
    segments_destroyed: int
    exports: int
    """How often a segment was handed to a client as a file descriptor."""
    foreign_bytes: int
    """Of the total, what others use, as the driver says; 0 on the host."""
    lost: str
    """Why the device does not serve any more; empty while it does."""


@dataclass(frozen=True)
class DaemonStatus:
    """The daemon as a whole."""

    version: str
    boot_id: str
    devices: tuple[DeviceStatus, ...]
