"""What a load did."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.lease import WeightLease
from tenure.model import Model, Reuse


@dataclass(frozen=True)
class LoadResult:
    """What a load did, and the lease if one was asked for."""

    model: Model
    reuse: Reuse
    """How its memory was got."""
    bytes_copied: int
    segments_created: int
    segments_reused: int
    seconds: float
    """From the daemon taking the call to the model being leasable."""
    reclaimed: tuple[str, ...]
    """`name@revision` of every model whose retained memory was given up for it."""
    lease: WeightLease | None
