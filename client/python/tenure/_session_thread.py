"""The thread of a session: everything that sends, receives, maps and unmaps."""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from tenure import errors
from tenure._handle import HandleSocket, Received
from tenure._held_leases import HeldLease
from tenure._mapping import Mapping
from tenure._session import Fetch, Session
from tenure.errors import MAPPING, TenureError, protocol_error
from tenure.v1 import handle_pb2

# How long closing waits for a daemon that does not listen.
CLOSE_WAIT = 1.0
# How many heartbeats without an answer are remembered.
_MOST_UNANSWERED = 1000
# How many serials one Unmapped carries: well within a packet.
_SERIALS_PER_PACKET = 4000
# How many heartbeats fall into the shortest time to live.
_HEARTBEATS_PER_TTL = 3


class SessionThread(threading.Thread):
    """Sends heartbeats, answers recalls, notes lost leases and fetches memory.

    All packets are sent by this thread, in the order munmap, Unmapped, FetchShare for the same region,
    so that an Unmapped never speaks of a newer mapping. A recall of a mapping that an array still shows
    cannot be answered: the answer follows when the array is gone.

    Parameters
    ----------
    session : Session
        What it works for.
    handle : HandleSocket
        After the greeting.
    release : Callable[[HeldLease], None]
        Gives a lease back to the daemon without waiting.
    """

    def __init__(
        self, session: Session, handle: HandleSocket, release: Callable[[HeldLease], None]
    ) -> None:
        super().__init__(name="tenure-session", daemon=True)
        self._session = session
        self._handle = handle
        self._release = release
        self._outbound: deque[bytes] = deque()
        self._fetch: Fetch | None = None
        self._sequence = 0
        self._last_heartbeat = session.renewed_at
        self._unanswered: deque[tuple[int, float]] = deque(maxlen=_MOST_UNANSWERED)
        self._close_by: float | None = None
        self._goodbye_said = False
        session.hang_up = handle.close

    def run(self) -> None:
        """Works until the session is over."""
        why = TenureError("the session ended", errors.DAEMON_GONE)
        try:
            while self._step():
                pass
        except TenureError as failure:
            why = failure
        finally:
            if self._fetch is not None:
                self._session.fetches.append(self._fetch)
            closed = self._goodbye_said
            self._session.end(
                "this client was closed" if closed else f"the session is over, connect again: {why}",
                errors.RELEASED if closed else errors.DAEMON_GONE,
            )
            self._handle.close()

    def _step(self) -> bool:
        """Does what is due, then waits for what comes next; False if it is time to end."""
        self._drop_unread()
        self._give_back()
        self._start_fetch()
        if self._session.closing:
            self._close_by = self._close_by or time.monotonic() + CLOSE_WAIT
            if self._fetch is None and not self._goodbye_said:
                self._say_goodbye()
        self._send_heartbeat()
        while self._outbound and self._handle.send(self._outbound[0]):
            self._outbound.popleft()
        if self._close_by is not None:
            said = self._goodbye_said and not self._outbound
            if said or time.monotonic() >= self._close_by:
                return False
        self._wait()
        while (received := self._handle.receive()) is not None:
            try:
                self._on_packet(received)
            finally:
                received.close_fds()
        with self._session.changed:
            self._session.leases.lose_overdue(
                time.monotonic(), self._session.renewed_at, errors.HEARTBEAT_MISSED
            )
        return True

    def _wait(self) -> None:
        due = self._close_by or self._last_heartbeat + self._heartbeat_interval()
        poll = select.poll()
        poll.register(self._handle, select.POLLIN | (select.POLLOUT if self._outbound else 0))
        poll.register(self._session.wake_up, select.POLLIN)
        poll.poll(max(0.0, due - time.monotonic()) * 1000 + 1)
        self._session.wake_up.clear()

    def _queue(self, packet: handle_pb2.ClientPacket) -> None:
        self._outbound.append(packet.SerializeToString())

    # Heartbeats.

    def _heartbeat_interval(self) -> float:
        with self._session.changed:
            shortest = self._session.leases.shortest_ttl()
        most = self._session.heartbeat_interval
        return most if shortest is None else min(most, shortest / _HEARTBEATS_PER_TTL)

    def _send_heartbeat(self) -> None:
        now = time.monotonic()
        if self._goodbye_said or now < self._last_heartbeat + self._heartbeat_interval():
            return
        self._last_heartbeat = now
        # One that waits to be sent does for all.
        if self._outbound:
            return
        self._sequence += 1
        self._unanswered.append((self._sequence, now))
        packet = handle_pb2.ClientPacket()
        packet.heartbeat.sequence = self._sequence
        self._queue(packet)

    def _on_heartbeat_reply(self, sequence: int) -> None:
        while self._unanswered and self._unanswered[0][0] <= sequence:
            self._session.renewed_at = self._unanswered.popleft()[1]

    # Giving back.

    def _drop_unread(self) -> None:
        while self._session.closed_windows:
            lease = self._session.closed_windows.popleft()
            if self._session.drop(lease):
                self._release(lease)

    def _give_back(self) -> None:
        with self._session.changed:
            taken = self._session.regions.take_wanted()
        self._unmap_and_tell(taken)

    def _unmap_and_tell(self, taken: Sequence[tuple[int, Mapping | None]]) -> None:
        for _, mapping in taken:
            if mapping is not None:
                mapping.unmap()
        serials = [serial for serial, _ in taken]
        for first in range(0, len(serials), _SERIALS_PER_PACKET):
            packet = handle_pb2.ClientPacket()
            packet.unmapped.share_serials.extend(serials[first : first + _SERIALS_PER_PACKET])
            self._queue(packet)

    def _say_goodbye(self) -> None:
        self._goodbye_said = True
        with self._session.changed:
            self._session.leases.lose_all(errors.RELEASED)
            self._session.regions.want_all_back()
        self._give_back()
        packet = handle_pb2.ClientPacket()
        packet.goodbye.SetInParent()
        self._queue(packet)

    # What comes in.

    def _on_packet(self, received: Received) -> None:
        packet = received.packet
        kind = packet.WhichOneof("packet")
        with self._session.changed:
            if kind == "heartbeat_reply":
                self._on_heartbeat_reply(packet.heartbeat_reply.sequence)
            elif kind == "recall":
                self._session.regions.want_back(packet.recall.share_serial)
            elif kind == "lease_lost":
                lost = packet.lease_lost
                self._session.leases.lose(lost.lease_id, lost.reason)
                # The daemon cannot use it again before the client says that it has unmapped it.
                self._session.regions.want_region_back(lost.region_id)
            elif kind == "drain":
                self._session.regions.want_all_back()
        if kind == "share_batch":
            self._on_share_batch(packet.share_batch, received)
        elif kind == "share_refused":
            refused = packet.share_refused
            if self._fetch is None or self._fetch.lease.lease_id != refused.lease_id:
                raise protocol_error("a refusal of memory that was not asked for")
            self._finish_fetch(TenureError(refused.message, refused.reason))
        elif kind == "welcome":
            raise protocol_error("a second Welcome")
        # Another packet is something that only newer clients know.
        self._give_back()

    # Fetching.

    def _start_fetch(self) -> None:
        if self._fetch is None and not self._goodbye_said:
            with self._session.changed:
                if self._session.fetches:
                    self._fetch = self._session.fetches.popleft()
            if self._fetch is not None:
                self._send_fetch(self._fetch)

    def _send_fetch(self, fetch: Fetch) -> None:
        packet = handle_pb2.ClientPacket()
        packet.fetch_share.lease_id = fetch.lease.lease_id
        packet.fetch_share.first_segment = fetch.next_segment
        self._queue(packet)

    def _on_share_batch(self, batch: handle_pb2.ShareBatch, received: Received) -> None:
        fetch = self._fetch
        if (
            fetch is None
            or batch.lease_id != fetch.lease.lease_id
            or batch.first_segment != fetch.next_segment
        ):
            raise protocol_error("memory that was not asked for")
        fetch.share_serial = batch.share_serial
        fetch.next_segment += len(batch.segment_sizes)
        failure: TenureError | None = None
        try:
            _map_batch(fetch, batch, received)
        except TenureError as error:
            failure = error
        # An Unmapped must not come before the acknowledgement.
        packet = handle_pb2.ClientPacket()
        packet.share_ack.share_serial = batch.share_serial
        packet.share_ack.next_segment = fetch.next_segment
        self._queue(packet)
        if failure is not None or (fetch.mapping is not None and fetch.mapping.complete):
            self._finish_fetch(failure)
        else:
            self._send_fetch(fetch)

    def _finish_fetch(self, failure: TenureError | None) -> None:
        fetch, self._fetch = self._fetch, None
        assert fetch is not None
        region_id = fetch.lease.region_id
        if failure is not None and fetch.share_serial != 0:
            self._unmap_and_tell([(fetch.share_serial, fetch.mapping)])
        with self._session.changed:
            if failure is None and fetch.mapping is not None:
                self._session.regions.finish_fetch(region_id, fetch.share_serial, fetch.mapping)
            else:
                self._session.regions.fail_fetch(region_id)
            fetch.error = failure
            self._session.changed.notify_all()


def _map_batch(fetch: Fetch, batch: handle_pb2.ShareBatch, received: Received) -> None:
    if received.fds_lost:
        raise TenureError(
            "this process has too many files open to receive the memory; raise its nofile limit", MAPPING
        )
    sizes = list(batch.segment_sizes)
    if batch.region_id != fetch.lease.region_id or not sizes or len(sizes) != len(received.fds):
        raise protocol_error("a batch does not fit what was asked for")
    if fetch.mapping is None:
        fetch.mapping = Mapping(fetch.lease.region_bytes)
    for fd, size in zip(received.fds, sizes):
        fetch.mapping.append(fd, size)
    if fetch.mapping.complete != (fetch.next_segment == batch.segment_count):
        raise protocol_error("the segments do not add up to the region's size")
