"""The leases of a session, as this process knows them."""

from __future__ import annotations

from dataclasses import dataclass

from tenure._early_losses import EarlyLosses
from tenure._translate import seconds
from tenure.v1 import model_pb2


@dataclass(eq=False)
class HeldLease:
    """One lease. Live until `lost_reason` is set, and never again after that."""

    lease_id: int
    region_id: int
    region_bytes: int
    ttl: float
    granted_at: float
    """A moment before the daemon granted it."""
    lost_reason: str = ""
    """Why it ended; empty while it lives. The first reason stays."""
    dropped: bool = False
    """Nothing of this process wants it any more."""

    @classmethod
    def granted(cls, lease: model_pb2.WeightLease, called_at: float) -> HeldLease:
        """Makes it of the daemon's reply to a call made at `called_at`."""
        return cls(
            lease_id=lease.lease_id,
            region_id=lease.region_id,
            region_bytes=lease.region_bytes,
            ttl=seconds(lease.ttl),
            granted_at=called_at,
        )

    def lose(self, reason: str) -> None:
        """Ends it."""
        self.lost_reason = self.lost_reason or reason

    def certain_until(self, renewed_at: float) -> float:
        """Gives the moment until which the daemon promised it, having renewed it after `renewed_at`."""
        return max(self.granted_at, renewed_at) + self.ttl


class HeldLeases:
    """From the reply that granted a lease until it is dropped. Thread-compatible."""

    def __init__(self) -> None:
        self._leases: dict[int, HeldLease] = {}
        self.early_losses = EarlyLosses()

    def add(self, lease: HeldLease) -> None:
        """Adds a lease. If the loss of it was told already, it is marked so."""
        self._leases[lease.lease_id] = lease
        lease.lose(self.early_losses.reason_of(lease.lease_id))

    def remove(self, lease: HeldLease) -> None:
        """Removes a lease if it is there."""
        self._leases.pop(lease.lease_id, None)

    def lose(self, lease_id: int, reason: str) -> None:
        """Ends a lease at the daemon's word."""
        if lease_id in self._leases:
            self._leases[lease_id].lose(reason)
        else:
            self.early_losses.note(lease_id, reason)

    def lose_all(self, reason: str) -> None:
        """Ends all of them."""
        for lease in self._leases.values():
            lease.lose(reason)

    def lose_overdue(self, now: float, renewed_at: float, reason: str) -> None:
        """Ends those that nobody has promised beyond `now`."""
        for lease in self._leases.values():
            if lease.certain_until(renewed_at) <= now:
                lease.lose(reason)

    def shortest_ttl(self) -> float | None:
        """Gives the shortest time to live; None if there are no leases."""
        return min((lease.ttl for lease in self._leases.values()), default=None)
