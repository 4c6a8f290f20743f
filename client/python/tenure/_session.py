"""One session with the daemon, as the threads of the program see it."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from tenure import errors
from tenure._deadline import Deadline
from tenure._fetch import Fetch, PoolFetch, RegionFetch
from tenure._held_leases import HeldLease, HeldLeases
from tenure._mapping import Mapping
from tenure._pool_mapping import PoolMapping
from tenure._pools import HeldBuffer, HeldPool, Pools
from tenure._regions import Regions
from tenure._translate import seconds
from tenure._wake_up import WakeUp
from tenure._window import Window
from tenure.errors import LeaseLostError, TenureError, forked_error, protocol_error
from tenure.v1 import buffer_pb2, handle_pb2


class Session:
    """What the program and the session's thread share. Thread-safe.

    `changed` guards `leases`, `regions`, `pools` and `fetches`; nothing waits for the daemon, maps or unmaps
    under it. In a forked child every method but `forked` raises or does nothing, since the thread
    does not exist there.

    Parameters
    ----------
    welcome : handle_pb2.Welcome
        What the daemon greeted with.
    welcomed_at : float
        A moment before that.
    """

    def __init__(self, welcome: handle_pb2.Welcome, welcomed_at: float) -> None:
        self.boot_id = welcome.boot_id
        self.token = welcome.token
        self.session_id = welcome.session_id
        self.heartbeat_interval = min(max(seconds(welcome.heartbeat_interval), 0.01), 60.0)
        self.wake_up = WakeUp()
        self.changed = threading.Condition(threading.RLock())
        self.leases = HeldLeases()
        self.regions = Regions()
        self.pools = Pools()
        self.fetches: deque[Fetch] = deque()
        self.renewed_at = welcomed_at
        """A moment before the daemon last renewed all leases."""
        self.closed_windows: deque[HeldLease | HeldBuffer] = deque()
        """What nothing can be read through any more; filled by finalizers."""
        self.closing = False
        self.forked = False
        self.hang_up: Callable[[], None] = lambda: None
        """Lets go of the connection in a forked child."""
        self._over: tuple[str, str] | None = None
        _sessions.add(self)

    @property
    def alive(self) -> bool:
        """Whether the daemon still knows this session, as far as is known."""
        return not self.forked and not self.closing and self._over is None

    def check(self) -> None:
        """Raises TenureError if the session is over."""
        if self.forked:
            raise forked_error()
        if self.closing:
            raise TenureError("this client was closed", errors.RELEASED)
        if self._over is not None:
            raise TenureError(*self._over, code="UNAVAILABLE")

    @contextmanager
    def granting(self) -> Iterator[None]:
        """Goes around every call that may grant a lease or buffers, up to `hold` or `hold_buffers`."""
        self.check()
        with self.changed:
            self.leases.early_losses.begin_grant()
            self.pools.early_losses.begin_grant()
        try:
            yield
        finally:
            with self.changed:
                self.leases.early_losses.end_grant()
                self.pools.early_losses.end_grant()

    def hold(self, lease: HeldLease, deadline: Deadline) -> Window | None:
        """Takes a lease that was just granted into care, and opens a window on its region.

        The region is fetched first, unless it is mapped already. After an error nothing is held.

        Returns
        -------
        Window or None
            None for a region of no bytes.
        """
        with self.changed:
            self.leases.add(lease)
            self.wake_up.set()
            if lease.region_bytes == 0:
                return None
            self.regions.use(lease.region_id)
            try:
                mapping = self._mapped(lease, deadline)
                if mapping.size != lease.region_bytes:
                    raise protocol_error(f"a region changed its size, id: {lease.region_id}")
                return mapping.open_window()
            except BaseException:
                self._drop(lease)
                raise

    def drop(self, lease: HeldLease) -> bool:
        """Notes that nothing wants a lease any more. Call before the daemon is told, so that its recall
        finds the region idle.

        Returns
        -------
        bool
            False if it had been dropped before.
        """
        if self.forked:
            return False
        with self.changed:
            return self._drop(lease)

    def hold_buffers(
        self,
        granted: buffer_pb2.Pool,
        buffers: Sequence[buffer_pb2.Buffer],
        called_at: float,
        deadline: Deadline,
    ) -> list[tuple[HeldBuffer, Window]]:
        """Takes buffers that were just granted into care, and opens a window on each.

        Segments that are not mapped yet are fetched first. After an error nothing is held.
        """
        held: list[HeldBuffer] = []
        with self.changed:
            pool = self.pools.add(granted, called_at)
            self.wake_up.set()
            try:
                held.extend(map(pool.add, buffers))
                mapping = self._map_segments(pool, held, deadline)
                return [(each, self._open_window(mapping, each)) for each in held]
            except BaseException:
                for each in held:
                    self.drop_buffer(each)
                    pool.unuse(each)
                raise

    def drop_buffer(self, buffer: HeldBuffer) -> bool:
        """As `drop`, for a buffer. Its segments stay in use until its window has closed."""
        if self.forked:
            return False
        with self.changed:
            if buffer.dropped:
                return False
            buffer.dropped = True
            buffer.pool.buffers.discard(buffer)
            return True

    def unuse_segments(self, buffer: HeldBuffer) -> None:
        """Notes that no array shows a buffer any more."""
        with self.changed:
            buffer.pool.unuse(buffer)

    def window_closed(self, held: HeldLease | HeldBuffer) -> None:
        """Tells the session's thread that nothing is read any more. For finalizers: takes no lock."""
        if self.forked:
            return
        self.closed_windows.append(held)
        self.wake_up.set()

    def lost_reason(self, held: HeldLease | HeldBuffer) -> str:
        """Says why a lease or buffer is not to be used any more; empty while it may be."""
        if self.forked:
            return errors.FORKED
        if self.closing:
            held.lose(errors.RELEASED)
        elif time.monotonic() >= held.certain_until(self.renewed_at):
            held.lose(errors.HEARTBEAT_MISSED)
        return held.lost_reason

    @property
    def mapped_region_count(self) -> int:
        """How many regions are mapped, in use or kept for quick return."""
        if self.forked:
            return 0
        with self.changed:
            return self.regions.mapped_count

    @property
    def mapped_buffer_bytes(self) -> int:
        """How many bytes of runtime memory are mapped, in use or kept for quick return."""
        if self.forked:
            return 0
        with self.changed:
            return self.pools.mapped_bytes

    def request_close(self) -> None:
        """Asks the thread to unmap everything, say so, and say goodbye. Takes no lock."""
        if not self.forked:
            self.closing = True
            self.wake_up.set()

    def end(self, message: str, reason: str) -> None:
        """Ends all there is, since the daemon cannot be talked to any more."""
        with self.changed:
            self._over = (message, reason)
            self.leases.lose_all(reason)
            self.pools.lose_all(reason)
            for fetch in self.fetches:
                fetch.fail(None)
            self.fetches.clear()
            self.regions.want_all_back()
            taken = self.take_wanted()
            self.changed.notify_all()
        for _, unmap in taken:
            # What stays mapped harms nobody: the daemon waits for the end of the process.
            with suppress(TenureError):
                unmap()

    def take_wanted(self) -> list[tuple[int, Callable[[], None]]]:
        """Forgets unused mappings that the daemon waits for, and gives their serials, each with what
        unmaps it. REQUIRES: `changed`."""
        return self.regions.take_wanted() + self.pools.take_wanted()

    def _drop(self, lease: HeldLease) -> bool:
        if lease.dropped:
            return False
        lease.dropped = True
        self.leases.remove(lease)
        if lease.region_bytes > 0:
            self.regions.unuse(lease.region_id)
            self.wake_up.set()
        return True

    def _mapped(self, lease: HeldLease, deadline: Deadline) -> Mapping:
        """Waits until a lease's region is mapped. REQUIRES: `changed`, and the region has a user."""
        region = self.regions[lease.region_id]
        mine: RegionFetch | None = None
        while region.mapping is None:
            self.check()
            if mine is not None and mine.error is not None:
                raise mine.error
            deadline.check("the daemon did not send the memory")
            # Whoever waits for another's fetch starts one for its own lease if that one fails.
            if not region.fetching:
                mine = RegionFetch(self.regions, lease)
                region.fetching = True
                self.fetches.append(mine)
                self.wake_up.set()
            self.changed.wait(deadline.left())
        return region.mapping

    def _map_segments(
        self, pool: HeldPool, buffers: Sequence[HeldBuffer], deadline: Deadline
    ) -> PoolMapping:
        """Waits until the segments of buffers are mapped. REQUIRES: `changed`, and that they are used."""
        needed = {offset for buffer in buffers for offset in pool.offsets_of(buffer)}
        mine: PoolFetch | None = None
        while True:
            self.check()
            if pool.lost_reason:
                raise LeaseLostError(f"the lease on pool {pool.pool_id} is no more", pool.lost_reason)
            if pool.mapping is not None and needed <= pool.segments.keys():
                return pool.mapping
            if mine is not None and mine.error is not None:
                raise mine.error
            deadline.check("the daemon did not send the memory")
            # As above.
            absent = needed - pool.segments.keys() - pool.fetching
            if absent:
                mine = PoolFetch(pool, sorted(absent))
                pool.fetching |= absent
                self.fetches.append(mine)
                self.wake_up.set()
            self.changed.wait(deadline.left())

    def _open_window(self, mapping: PoolMapping, buffer: HeldBuffer) -> Window:
        window = mapping.open_window(buffer.offset, buffer.size)
        weakref.finalize(window, self.window_closed, buffer).atexit = False
        return window


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _abandon_after_fork() -> None:
    for session in list(_sessions):
        session.forked = True
        session.hang_up()


os.register_at_fork(after_in_child=_abandon_after_fork)
