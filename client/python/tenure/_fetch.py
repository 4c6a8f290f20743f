"""Memory on its way over the handle socket, batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from tenure._handle import Received
from tenure._held_leases import HeldLease
from tenure._mapping import Mapping
from tenure._pool_mapping import PoolMapping
from tenure._pools import HeldPool
from tenure._regions import Regions
from tenure.errors import MAPPING, TenureError, protocol_error
from tenure.v1 import handle_pb2

# The most that the daemon sends in one packet.
_SEGMENTS_PER_BATCH = 64


class Fetch(ABC):
    """Asks for batches until it is `complete`. Of one session only one runs at a time.

    For each batch: `request`, `answers`, `map`, `acknowledgement`, `take_in`.
    """

    def __init__(self) -> None:
        self.error: TenureError | None = None
        """Why it came to nothing."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether everything is mapped."""

    @abstractmethod
    def request(self) -> handle_pb2.ClientPacket:
        """Asks for the next batch."""

    @abstractmethod
    def answers(self, packet: handle_pb2.DaemonPacket) -> bool:
        """Tells whether this is the batch that was asked for, or the refusal of it."""

    @abstractmethod
    def map(self, received: Received) -> None:
        """Maps a batch that `answers`. Takes no lock."""

    @abstractmethod
    def acknowledgement(self, packet: handle_pb2.DaemonPacket) -> handle_pb2.ClientPacket:
        """Says that a batch has arrived, mapped or not."""

    @abstractmethod
    def take_in(self) -> None:
        """Shows to the session what is mapped. REQUIRES: the session's lock."""

    @abstractmethod
    def leftovers(self) -> list[tuple[int, Callable[[], None]]]:
        """Gives what the session will not see, with what unmaps it, after a `map` that failed."""

    @abstractmethod
    def fail(self, error: TenureError | None) -> None:
        """Ends it without all of the memory. REQUIRES: the session's lock."""


class RegionFetch(Fetch):
    """The region of a lease, which is shown once it is whole."""

    def __init__(self, regions: Regions, lease: HeldLease) -> None:
        super().__init__()
        self._regions = regions
        self._lease = lease
        self._mapping: Mapping | None = None
        self._next_segment = 0
        self._share_serial = 0

    @property
    def complete(self) -> bool:
        """As in Fetch."""
        return self._mapping is not None and self._mapping.complete

    def request(self) -> handle_pb2.ClientPacket:
        """As in Fetch."""
        packet = handle_pb2.ClientPacket()
        packet.fetch_share.lease_id = self._lease.lease_id
        packet.fetch_share.first_segment = self._next_segment
        return packet

    def answers(self, packet: handle_pb2.DaemonPacket) -> bool:
        """As in Fetch."""
        if packet.HasField("share_refused"):
            return packet.share_refused.lease_id == self._lease.lease_id
        batch = packet.share_batch
        return batch.lease_id == self._lease.lease_id and batch.first_segment == self._next_segment

    def map(self, received: Received) -> None:
        """As in Fetch."""
        batch = received.packet.share_batch
        self._share_serial = batch.share_serial
        self._next_segment += len(batch.segment_sizes)
        sizes = list(batch.segment_sizes)
        _check_fds(received, sizes)
        if batch.region_id != self._lease.region_id:
            raise protocol_error("a batch is of another region than asked for")
        if self._mapping is None:
            self._mapping = Mapping(self._lease.region_bytes)
        for fd, size in zip(received.fds, sizes):
            self._mapping.append(fd, size)
        if self._mapping.complete != (self._next_segment == batch.segment_count):
            raise protocol_error("the segments do not add up to the region's size")

    def acknowledgement(self, packet: handle_pb2.DaemonPacket) -> handle_pb2.ClientPacket:
        """As in Fetch."""
        return _acknowledgement(packet.share_batch.share_serial, self._next_segment)

    def take_in(self) -> None:
        """As in Fetch."""
        if self._mapping is not None and self._mapping.complete:
            self._regions.finish_fetch(self._lease.region_id, self._share_serial, self._mapping)

    def leftovers(self) -> list[tuple[int, Callable[[], None]]]:
        """As in Fetch."""
        if self._share_serial == 0:
            return []
        unmap = _nothing if self._mapping is None else self._mapping.unmap
        return [(self._share_serial, unmap)]

    def fail(self, error: TenureError | None) -> None:
        """As in Fetch."""
        self.error = error
        self._regions.fail_fetch(self._lease.region_id)


class PoolFetch(Fetch):
    """Segments of a pool, each shown as soon as its batch is mapped.

    Parameters
    ----------
    pool : HeldPool
        Whose; `offsets` are fetching there.
    offsets : Sequence[int]
        Of the segments.
    """

    def __init__(self, pool: HeldPool, offsets: Sequence[int]) -> None:
        super().__init__()
        self._pool = pool
        self._waiting = list(offsets)
        self._serials: list[int] = []

    @property
    def complete(self) -> bool:
        """As in Fetch."""
        return not self._waiting

    @property
    def _asked(self) -> list[int]:
        return self._waiting[:_SEGMENTS_PER_BATCH]

    def request(self) -> handle_pb2.ClientPacket:
        """As in Fetch."""
        packet = handle_pb2.ClientPacket()
        packet.fetch_pool.pool_id = self._pool.pool_id
        packet.fetch_pool.offsets.extend(self._asked)
        return packet

    def answers(self, packet: handle_pb2.DaemonPacket) -> bool:
        """As in Fetch."""
        if packet.HasField("pool_refused"):
            return packet.pool_refused.pool_id == self._pool.pool_id
        batch = packet.pool_batch
        offsets = [segment.offset for segment in batch.segments]
        return batch.pool_id == self._pool.pool_id and offsets == self._asked

    def map(self, received: Received) -> None:
        """As in Fetch."""
        batch = received.packet.pool_batch
        self._serials = [segment.share_serial for segment in batch.segments]
        sizes = [segment.size for segment in batch.segments]
        _check_fds(received, sizes)
        if any(size != self._pool.segment_bytes for size in sizes):
            raise protocol_error("a segment has another size than its pool's")
        if self._pool.mapping is None:
            self._pool.mapping = PoolMapping(self._pool.range_bytes)
        for fd, offset, size in zip(received.fds, self._asked, sizes):
            self._pool.mapping.map(fd, offset, size)

    def acknowledgement(self, packet: handle_pb2.DaemonPacket) -> handle_pb2.ClientPacket:
        """As in Fetch."""
        return _acknowledgement(self._serials[-1], len(self._serials))

    def take_in(self) -> None:
        """As in Fetch."""
        for offset, serial in zip(self._asked, self._serials):
            self._pool.finish_fetch(offset, serial)
        del self._waiting[: len(self._serials)]
        self._serials = []

    def leftovers(self) -> list[tuple[int, Callable[[], None]]]:
        """As in Fetch."""
        return [(serial, self._unmapper(offset)) for offset, serial in zip(self._asked, self._serials)]

    def fail(self, error: TenureError | None) -> None:
        """As in Fetch."""
        self.error = error
        self._pool.fetching.difference_update(self._waiting)

    def _unmapper(self, offset: int) -> Callable[[], None]:
        mapping = self._pool.mapping
        if mapping is None:
            return _nothing
        return lambda: mapping.unmap(offset, self._pool.segment_bytes)


def _check_fds(received: Received, sizes: Sequence[int]) -> None:
    if received.fds_lost:
        raise TenureError(
            "this process has too many files open to receive the memory; raise its nofile limit", MAPPING
        )
    if not sizes or len(sizes) != len(received.fds):
        raise protocol_error("a batch does not fit what was asked for")


def _acknowledgement(share_serial: int, next_segment: int) -> handle_pb2.ClientPacket:
    packet = handle_pb2.ClientPacket()
    packet.share_ack.share_serial = share_serial
    packet.share_ack.next_segment = next_segment
    return packet


def _nothing() -> None:
    pass
