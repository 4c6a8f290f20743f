"""The thread of a session: everything that sends, receives, maps and unmaps."""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from tenure import errors
from tenure._fetch import Fetch
from tenure._handle import HandleSocket, Received
from tenure._held_leases import HeldLease
from tenure._pools import HeldBuffer
from tenure._session import Session
from tenure.errors import TenureError, protocol_error
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

    All packets are sent by this thread, in the order munmap, Unmapped, FetchShare or FetchPool for the same
    memory, so that an Unmapped never speaks of a newer mapping. A recall of a mapping that an array still shows
    cannot be answered: the answer follows when the array is gone.

    Parameters
    ----------
    session : Session
        What it works for.
    handle : HandleSocket
        After the greeting.
    release : Callable[[HeldLease], None]
        Gives a lease back to the daemon without waiting.
    release_buffers : Callable[[Sequence[HeldBuffer]], None]
        The same for buffers.
    """

    def __init__(
        self,
        session: Session,
        handle: HandleSocket,
        release: Callable[[HeldLease], None],
        release_buffers: Callable[[Sequence[HeldBuffer]], None],
    ) -> None:
        super().__init__(name="tenure-session", daemon=True)
        self._session = session
        self._handle = handle
        self._release = release
        self._release_buffers = release_buffers
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
        overdue = (time.monotonic(), self._session.renewed_at, errors.HEARTBEAT_MISSED)
        with self._session.changed:
            self._session.leases.lose_overdue(*overdue)
            self._session.pools.lose_overdue(*overdue)
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
            ttls = (self._session.leases.shortest_ttl(), self._session.pools.shortest_ttl())
        intervals = [ttl / _HEARTBEATS_PER_TTL for ttl in ttls if ttl is not None]
        return min([self._session.heartbeat_interval, *intervals])

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
        buffers: list[HeldBuffer] = []
        while self._session.closed_windows:
            held = self._session.closed_windows.popleft()
            if isinstance(held, HeldBuffer):
                self._session.unuse_segments(held)
                if self._session.drop_buffer(held):
                    buffers.append(held)
            elif self._session.drop(held):
                self._release(held)
        if buffers:
            self._release_buffers(buffers)

    def _give_back(self) -> None:
        with self._session.changed:
            taken = self._session.take_wanted()
        self._unmap_and_tell(taken)

    def _unmap_and_tell(self, taken: Sequence[tuple[int, Callable[[], None]]]) -> None:
        serials: list[int] = []
        for serial, unmap in taken:
            try:
                unmap()
            except TenureError:
                # It stays mapped for as long as this process lives, so the daemon must not have it.
                continue
            serials.append(serial)
        for first in range(0, len(serials), _SERIALS_PER_PACKET):
            packet = handle_pb2.ClientPacket()
            packet.unmapped.share_serials.extend(serials[first : first + _SERIALS_PER_PACKET])
            self._queue(packet)

    def _say_goodbye(self) -> None:
        self._goodbye_said = True
        with self._session.changed:
            self._session.leases.lose_all(errors.RELEASED)
            self._session.pools.lose_all(errors.RELEASED)
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
            elif kind == "pool_recall":
                self._session.pools.want_back(packet.pool_recall.share_serials)
            elif kind == "pool_lost":
                self._session.pools.lose(packet.pool_lost.pool_id, packet.pool_lost.reason)
            elif kind == "drain":
                self._session.regions.want_all_back()
                self._session.pools.want_all_back()
        if kind in ("share_batch", "pool_batch", "share_refused", "pool_refused"):
            self._on_answer(received)
        elif kind == "welcome":
            raise protocol_error("a second Welcome")
        # MemoryWanted asks for what GrowPool brought, of which there is nothing here. Another packet is
        # something that only newer clients know.
        self._give_back()

    # Fetching.

    def _start_fetch(self) -> None:
        if self._fetch is None and not self._goodbye_said:
            with self._session.changed:
                if self._session.fetches:
                    self._fetch = self._session.fetches.popleft()
            if self._fetch is not None:
                self._queue(self._fetch.request())

    def _on_answer(self, received: Received) -> None:
        fetch, packet = self._fetch, received.packet
        if fetch is None or not fetch.answers(packet):
            raise protocol_error("memory that was not asked for, or the refusal of it")
        if packet.HasField("share_refused"):
            refused = packet.share_refused
            return self._end_fetch(fetch, TenureError(refused.message, refused.reason))
        if packet.HasField("pool_refused"):
            lacking = packet.pool_refused
            return self._end_fetch(fetch, TenureError(lacking.message, lacking.reason))
        failure: TenureError | None = None
        try:
            fetch.map(received)
        except TenureError as error:
            failure = error
        # An Unmapped must not come before the acknowledgement.
        self._queue(fetch.acknowledgement(packet))
        if failure is not None:
            return self._end_fetch(fetch, failure)
        with self._session.changed:
            fetch.take_in()
            self._session.changed.notify_all()
        if fetch.complete:
            self._fetch = None
        else:
            self._queue(fetch.request())

    def _end_fetch(self, fetch: Fetch, failure: TenureError) -> None:
        self._fetch = None
        self._unmap_and_tell(fetch.leftovers())
        with self._session.changed:
            fetch.fail(failure)
            self._session.changed.notify_all()
