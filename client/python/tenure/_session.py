"""One session with the daemon, as the threads of the program see it."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tenure import errors
from tenure._deadline import Deadline
from tenure._held_leases import HeldLease, HeldLeases
from tenure._mapping import Mapping, Window
from tenure._regions import Regions
from tenure._translate import seconds
from tenure.errors import TenureError, forked_error, protocol_error
from tenure.v1 import handle_pb2


@dataclass(eq=False)
class Fetch:
    """Memory on its way."""

    lease: HeldLease
    mapping: Mapping | None = None
    next_segment: int = 0
    share_serial: int = 0
    """Known from the first batch on."""
    error: TenureError | None = None
    """Why it came to nothing."""


class WakeUp:
    """Ends a poll from anywhere, a finalizer included."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def __del__(self) -> None:
        os.close(self._fd)

    def fileno(self) -> int:
        """Gives the descriptor to poll."""
        return self._fd

    def set(self) -> None:
        """Makes the descriptor readable."""
        os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        """Makes it unreadable again."""
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            pass


class Session:
    """What the program and the session's thread share. Thread-safe.

    `changed` guards `leases`, `regions` and `fetches`; nothing waits for the daemon, maps or unmaps
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
        self.fetches: deque[Fetch] = deque()
        self.renewed_at = welcomed_at
        """A moment before the daemon last renewed all leases."""
        self.closed_windows: deque[HeldLease] = deque()
        """Leases through which nothing can be read any more; filled by finalizers."""
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
        """Goes around every call that may grant a lease, up to its `hold`."""
        self.check()
        with self.changed:
            self.leases.begin_grant()
        try:
            yield
        finally:
            with self.changed:
                self.leases.end_grant()

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

    def window_closed(self, lease: HeldLease) -> None:
        """Tells the session's thread to drop a lease. For finalizers: takes no lock."""
        if self.forked:
            return
        self.closed_windows.append(lease)
        self.wake_up.set()

    def lost_reason(self, lease: HeldLease) -> str:
        """Says why a lease is not to be read through any more; empty while it may be."""
        if self.forked:
            return errors.FORKED
        if self.closing:
            lease.lose(errors.RELEASED)
        elif time.monotonic() >= lease.certain_until(self.renewed_at):
            lease.lose(errors.HEARTBEAT_MISSED)
        return lease.lost_reason

    @property
    def mapped_region_count(self) -> int:
        """How many regions are mapped, in use or kept for quick return."""
        if self.forked:
            return 0
        with self.changed:
            return self.regions.mapped_count

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
            for fetch in self.fetches:
                self.regions.fail_fetch(fetch.lease.region_id)
            self.fetches.clear()
            self.regions.want_all_back()
            taken = self.regions.take_wanted()
            self.changed.notify_all()
        for _, mapping in taken:
            mapping.unmap()

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
        mine: Fetch | None = None
        while region.mapping is None:
            self.check()
            if mine is not None and mine.error is not None:
                raise mine.error
            deadline.check("the daemon did not send the memory")
            # Whoever waits for another's fetch starts one for its own lease if that one fails.
            if not region.fetching:
                mine = Fetch(lease)
                region.fetching = True
                self.fetches.append(mine)
                self.wake_up.set()
            self.changed.wait(deadline.left())
        return region.mapping


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _abandon_after_fork() -> None:
    for session in list(_sessions):
        session.forked = True
        session.hang_up()


os.register_at_fork(after_in_child=_abandon_after_fork)
