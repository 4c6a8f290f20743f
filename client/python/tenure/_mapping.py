"""Maps a region's segments side by side into one read-only range."""

from __future__ import annotations

import mmap
import os
import weakref

from tenure import _memory
from tenure._window import Window
from tenure.errors import protocol_error


class Mapping:
    """A reserved range that a region's segments are mapped into one after the other.

    The range goes when `unmap` is called, or with the last reference: a Window holds one, so no array
    ever shows memory that is not there. A forked child has none of it. Thread-compatible, except that
    windows may close anywhere at any time.

    Parameters
    ----------
    size : int
        The region's size in bytes.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.base = _memory.reserve(size)
        self._mapped = 0
        self._windows: list[weakref.ref[Window]] = []
        self._unmap = weakref.finalize(self, _memory.unreserve_in, os.getpid(), self.base, size)
        # Arrays may be read until the very end of the process.
        self._unmap.atexit = False

    @property
    def complete(self) -> bool:
        """Whether every byte of the range is mapped."""
        return self._mapped == self.size

    @property
    def viewed(self) -> bool:
        """Whether a window, or an array seen through one, is still there."""
        return any(window() is not None for window in self._windows)

    def append(self, fd: int, size: int) -> None:
        """Maps the next segment. The descriptor may be closed afterwards.

        Parameters
        ----------
        fd : int
            The segment.
        size : int
            Its size in bytes.
        """
        if size <= 0 or size % mmap.PAGESIZE != 0 or size > self.size - self._mapped:
            raise protocol_error(f"a segment does not fit its region, bytes: {size}")
        _memory.map_segment(self.base + self._mapped, fd, size, writable=False)
        self._mapped += size

    def open_window(self) -> Window:
        """Makes another window to read through."""
        window = Window(self, self.base, self.size, writable=False)
        self._windows = [each for each in self._windows if each() is not None]
        self._windows.append(weakref.ref(window))
        return window

    def unmap(self) -> None:
        """Gives the range back. REQUIRES: not `viewed`."""
        assert not self.viewed
        self._unmap()
