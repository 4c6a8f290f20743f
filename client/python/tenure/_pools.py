"""The pools of a session: their buffers, as this process knows them, and the segments it has mapped."""

from __future__ import annotations

import functools
import mmap
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tenure._early_losses import EarlyLosses
from tenure._pool_mapping import PoolMapping
from tenure._translate import seconds
from tenure.errors import protocol_error
from tenure.v1 import buffer_pb2


@dataclass(eq=False)
class HeldBuffer:
    """One buffer. Live until `lost_reason` is set, and never again after that."""

    buffer_id: int
    pool: HeldPool
    offset: int
    size: int
    lost_reason: str = ""
    """Why it ended; empty while it lives. The first reason stays."""
    dropped: bool = False
    """Nothing of this process wants it any more; arrays may still show it."""
    uses_segments: bool = True
    """They must not be unmapped."""

    def lose(self, reason: str) -> None:
        """Ends it."""
        self.lost_reason = self.lost_reason or reason

    def certain_until(self, renewed_at: float) -> float:
        """Gives the moment until which the daemon promised it, having renewed it after `renewed_at`."""
        return self.pool.certain_until(renewed_at)


@dataclass(eq=False)
class HeldPool:
    """One pool. A segment, named by its offset, is

        absent -> fetching -> mapped -> absent

    and used by every buffer in it, until no array shows that any more.
    """

    pool_id: int
    device: str
    range_bytes: int
    segment_bytes: int
    ttl: float
    granted_at: float
    """A moment before the daemon last granted something in it."""
    lost_reason: str = ""
    """Why the daemon's lease on it ended, for good; empty while it lives."""
    mapping: PoolMapping | None = None
    """There from the first segment on."""
    segments: dict[int, int] = field(default_factory=dict)
    """The share serials of those that are mapped, by offset."""
    wanted_back: set[int] = field(default_factory=set)
    """Mapped ones that the daemon waits for; each goes as soon as it is not used."""
    fetching: set[int] = field(default_factory=set)
    users: Counter[int] = field(default_factory=Counter)
    buffers: set[HeldBuffer] = field(default_factory=set)
    """Those that were not dropped."""

    def certain_until(self, renewed_at: float) -> float:
        """As in HeldBuffer."""
        return max(self.granted_at, renewed_at) + self.ttl

    def offsets_of(self, buffer: HeldBuffer) -> range:
        """Gives the offsets of the segments that a buffer lies in."""
        first = buffer.offset - buffer.offset % self.segment_bytes
        return range(first, buffer.offset + buffer.size, self.segment_bytes)

    def add(self, granted: buffer_pb2.Buffer) -> HeldBuffer:
        """Adds a buffer; it uses its segments until `unuse`."""
        held = HeldBuffer(granted.buffer_id, self, granted.offset, granted.size)
        if not 0 < held.size <= self.range_bytes - held.offset:
            raise protocol_error(f"a buffer does not fit its pool, offset: {held.offset}")
        held.lose(self.lost_reason)
        self.buffers.add(held)
        self.users.update(self.offsets_of(held))
        return held

    def unuse(self, buffer: HeldBuffer) -> None:
        """Ends the use of segments that `add` began, once."""
        if not buffer.uses_segments:
            return
        buffer.uses_segments = False
        for offset in self.offsets_of(buffer):
            self.users[offset] -= 1
            if self.users[offset] == 0:
                del self.users[offset]

    def lose_buffers(self, reason: str) -> None:
        """Ends those that are there; the daemon may still grant others."""
        for buffer in self.buffers:
            buffer.lose(reason)

    def lose(self, reason: str) -> None:
        """Ends it and its buffers at the daemon's word."""
        self.lost_reason = self.lost_reason or reason
        self.lose_buffers(reason)
        self.want_all_back()

    def want_all_back(self) -> None:
        """Notes that the daemon waits for every segment."""
        self.wanted_back.update(self.segments)

    def take_wanted(self) -> list[tuple[int, Callable[[], None]]]:
        """As in Pools."""
        taken: list[tuple[int, Callable[[], None]]] = []
        for offset in [each for each in self.wanted_back if each not in self.users]:
            assert self.mapping is not None
            unmap = functools.partial(self.mapping.unmap, offset, self.segment_bytes)
            taken.append((self.segments.pop(offset), unmap))
            self.wanted_back.remove(offset)
        return taken

    def finish_fetch(self, offset: int, share_serial: int) -> None:
        """Takes in a segment that is mapped now. REQUIRES: it is fetching."""
        self.fetching.discard(offset)
        self.segments[offset] = share_serial
        if self.lost_reason:
            self.wanted_back.add(offset)

    @property
    def over(self) -> bool:
        """Whether nothing of it is left."""
        return bool(self.lost_reason) and not (
            self.buffers or self.users or self.segments or self.fetching
        )


class Pools:
    """From the reply that grants something in a pool until nothing of it is left. Thread-compatible."""

    def __init__(self) -> None:
        self._pools: dict[int, HeldPool] = {}
        self.early_losses = EarlyLosses()

    def add(self, granted: buffer_pb2.Pool, called_at: float) -> HeldPool:
        """Adds the pool of a reply to a call made at `called_at`, unless it is there already."""
        pool = self._pools.get(granted.pool_id)
        if pool is None:
            pool = _pool_of(granted, called_at)
            pool.lost_reason = self.early_losses.reason_of(pool.pool_id)
            self._pools[pool.pool_id] = pool
        pool.granted_at = max(pool.granted_at, called_at)
        return pool

    def lose(self, pool_id: int, reason: str) -> None:
        """Ends a pool at the daemon's word."""
        self.early_losses.note(pool_id, reason)
        if pool_id in self._pools:
            self._pools[pool_id].lose(reason)

    def lose_all(self, reason: str) -> None:
        """Ends all of them."""
        for pool in self._pools.values():
            pool.lose(reason)

    def lose_overdue(self, now: float, renewed_at: float, reason: str) -> None:
        """Ends the buffers of those that nobody has promised beyond `now`."""
        for pool in self._pools.values():
            if pool.certain_until(renewed_at) <= now:
                pool.lose_buffers(reason)

    def shortest_ttl(self) -> float | None:
        """Gives the shortest time to live; None if there are no live pools."""
        return min((pool.ttl for pool in self._pools.values() if not pool.lost_reason), default=None)

    def want_back(self, share_serials: Iterable[int]) -> None:
        """Notes that the daemon waits for segments."""
        wanted = set(share_serials)
        for pool in self._pools.values():
            pool.wanted_back.update(offset for offset, serial in pool.segments.items() if serial in wanted)

    def want_all_back(self) -> None:
        """The same for all."""
        for pool in self._pools.values():
            pool.want_all_back()

    def take_wanted(self) -> list[tuple[int, Callable[[], None]]]:
        """Forgets the unused segments that the daemon waits for, and gives their serials, each with what
        unmaps it."""
        taken: list[tuple[int, Callable[[], None]]] = []
        for pool in list(self._pools.values()):
            taken.extend(pool.take_wanted())
            if pool.over:
                del self._pools[pool.pool_id]
        return taken

    @property
    def mapped_bytes(self) -> int:
        """How many bytes are mapped, in use or idle."""
        return sum(len(pool.segments) * pool.segment_bytes for pool in self._pools.values())


def _pool_of(granted: buffer_pb2.Pool, called_at: float) -> HeldPool:
    segment_bytes = granted.segment_bytes
    if (
        segment_bytes == 0
        or segment_bytes % mmap.PAGESIZE != 0
        or granted.range_bytes % segment_bytes != 0
    ):
        raise protocol_error(f"a pool cannot have segments of this many bytes: {segment_bytes}")
    return HeldPool(
        pool_id=granted.pool_id,
        device=granted.device,
        range_bytes=granted.range_bytes,
        segment_bytes=segment_bytes,
        ttl=seconds(granted.ttl),
        granted_at=called_at,
    )
