"""Maps a region's segments side by side into one read-only range."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from tenure.errors import MAPPING, TenureError, protocol_error

# So that huge pages of a segment can be mapped as such.
_ALIGNMENT = 2 << 20
# Far above any region, far below an overflow.
_LARGEST = 1 << 46

# Of <sys/mman.h> on Linux, where Python does not name them.
_PROT_NONE = 0
_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Window:
    """Through which one lease reads a mapping. Every array that shows the memory keeps it alive."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping
        self.keeps_alive: object = None
        """What must not go before the last array."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The mapped range as read-only bytes, for NumPy."""
        return {
            "version": 3,
            "typestr": "|u1",
            "shape": (self._mapping.size,),
            "data": (self._mapping.base, True),
        }


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
        if not 0 < size <= _LARGEST:
            raise protocol_error(f"a region cannot have this many bytes: {size}")
        self.size = size
        self.base = _reserve(size)
        self._mapped = 0
        self._windows: list[weakref.ref[Window]] = []
        self._unmap = weakref.finalize(self, _unmap_in, os.getpid(), self.base, size)
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
        # Reading past the end of a shorter file would be SIGBUS.
        if os.fstat(fd).st_size < size:
            raise protocol_error(f"a segment's file is shorter than said, bytes: {size}")
        place = self.base + self._mapped
        _mmap(place, size, mmap.PROT_READ, mmap.MAP_SHARED | _MAP_FIXED, fd)
        # A child that kept a copy would hold the memory without a session that answers for it.
        if _libc.madvise(place, size, mmap.MADV_DONTFORK) != 0:
            raise _system_error("MADV_DONTFORK on a segment")
        self._mapped += size

    def open_window(self) -> Window:
        """Makes another window to read through."""
        window = Window(self)
        self._windows = [each for each in self._windows if each() is not None]
        self._windows.append(weakref.ref(window))
        return window

    def unmap(self) -> None:
        """Gives the range back. REQUIRES: not `viewed`."""
        assert not self.viewed
        self._unmap()


def bytes_of(window: Window, offset: int, size: int) -> npt.NDArray[np.uint8]:
    """Shows a part of a mapping as bytes, without a copy."""
    return np.asarray(window)[offset : offset + size]


def _mmap(address: int | None, size: int, protection: int, flags: int, fd: int) -> int:
    mapped = _libc.mmap(address, size, protection, flags, fd, 0)
    if mapped is None or mapped == _MAP_FAILED:
        raise _system_error(f"mapping {size} bytes")
    return int(mapped)


def _reserve(size: int) -> int:
    """Reserves an aligned range, of which the address comes back."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    start = _mmap(None, size + _ALIGNMENT, _PROT_NONE, flags, -1)
    head = -start % _ALIGNMENT
    if head > 0:
        _libc.munmap(start, head)
    if head < _ALIGNMENT:
        _libc.munmap(start + head + size, _ALIGNMENT - head)
    return start + head


def _unmap_in(pid: int, base: int, size: int) -> None:
    # A forked child never had the range; something else may be there by now.
    if os.getpid() == pid:
        _libc.munmap(base, size)


def _system_error(what: str) -> TenureError:
    number = ctypes.get_errno()
    return TenureError(
        f"{what} failed: {os.strerror(number)}", MAPPING, {"errno": errno.errorcode.get(number, "")}
    )
