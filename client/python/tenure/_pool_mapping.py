"""Maps a pool's segments, each at its offset in one range."""

from __future__ import annotations

import mmap
import os
import weakref

from tenure import _memory
from tenure._window import Window
from tenure.errors import protocol_error


class PoolMapping:
    """A reserved range that segments come into and leave, so that a buffer across several is contiguous.

    The range goes with the last reference: a Window holds one. A forked child has none of it. Calls for
    different segments may overlap, others not.

    Parameters
    ----------
    size : int
        Of the pool's range, in bytes.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.base = _memory.reserve(size)
        self._unmap = weakref.finalize(self, _memory.unreserve_in, os.getpid(), self.base, size)
        # Arrays may be used until the very end of the process.
        self._unmap.atexit = False

    def map(self, fd: int, offset: int, size: int) -> None:
        """Maps a segment for reading and writing. The descriptor may be closed afterwards."""
        if offset % mmap.PAGESIZE != 0 or not 0 < size <= self.size - offset:
            raise protocol_error(f"a segment does not fit its pool, offset: {offset}, bytes: {size}")
        _memory.map_segment(self.base + offset, fd, size, writable=True)

    def unmap(self, offset: int, size: int) -> None:
        """Takes a segment out. REQUIRES: no window shows a part of it."""
        _memory.unmap_segment(self.base + offset, size)

    def open_window(self, offset: int, size: int) -> Window:
        """Makes a window on a part of the range, all of which is mapped."""
        return Window(self, self.base + offset, size, writable=True)
