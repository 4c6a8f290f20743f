"""Ends another thread's poll."""

from __future__ import annotations

import os


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
