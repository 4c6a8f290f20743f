"""Addresses: reserved, mapped and given back. What only the C library can do."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

from tenure.errors import MAPPING, TenureError, protocol_error

# So that huge pages of a segment can be mapped as such.
_ALIGNMENT = 2 << 20
# Far above any region or pool, far below an overflow.
_LARGEST = 1 << 46

# Of <sys/mman.h> on Linux, where Python does not name them.
_PROT_NONE = 0
_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000
_MAP_FAILED = ctypes.c_void_p(-1).value

_NOTHING = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE

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


def reserve(size: int) -> int:
    """Reserves a range without memory, aligned at 2 MiB, that no forked child gets.

    Parameters
    ----------
    size : int
        In bytes.

    Returns
    -------
    int
        The address of its first byte.
    """
    if not 0 < size <= _LARGEST:
        raise protocol_error(f"no memory has this many bytes: {size}")
    start = _mmap(None, size + _ALIGNMENT, _PROT_NONE, _NOTHING, -1)
    head = -start % _ALIGNMENT
    if head > 0:
        _libc.munmap(start, head)
    if head < _ALIGNMENT:
        _libc.munmap(start + head + size, _ALIGNMENT - head)
    _keep_from_children(start + head, size)
    return start + head


def unreserve_in(pid: int, base: int, size: int) -> None:
    """Gives a range back with what is mapped in it, if this is the process that reserved it."""
    # A forked child never had the range; something else may be there by now.
    if os.getpid() == pid:
        _libc.munmap(base, size)


def map_segment(address: int, fd: int, size: int, *, writable: bool) -> None:
    """Maps a segment within a reserved range. The descriptor may be closed afterwards.

    Parameters
    ----------
    address : int
        Of its first byte.
    fd : int
        The segment.
    size : int
        Its size in bytes.
    writable : bool
        Whether it is mapped for writing too.
    """
    # Touching a page past the end of a shorter file would be SIGBUS.
    if os.fstat(fd).st_size < size:
        raise protocol_error(f"a segment's file is shorter than said, bytes: {size}")
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    _mmap(address, size, protection, mmap.MAP_SHARED | _MAP_FIXED, fd)
    # A child that kept a copy would hold the memory without a session that answers for it.
    _keep_from_children(address, size)


def unmap_segment(address: int, size: int) -> None:
    """Takes a segment out of a reserved range; the addresses stay reserved."""
    _mmap(address, size, _PROT_NONE, _NOTHING | _MAP_FIXED, -1)
    _keep_from_children(address, size)


def _mmap(address: int | None, size: int, protection: int, flags: int, fd: int) -> int:
    mapped = _libc.mmap(address, size, protection, flags, fd, 0)
    if mapped is None or mapped == _MAP_FAILED:
        raise _system_error(f"mapping {size} bytes")
    return int(mapped)


def _keep_from_children(address: int, size: int) -> None:
    if _libc.madvise(address, size, mmap.MADV_DONTFORK) != 0:
        raise _system_error("MADV_DONTFORK on memory")


def _system_error(what: str) -> TenureError:
    number = ctypes.get_errno()
    return TenureError(
        f"{what} failed: {os.strerror(number)}", MAPPING, {"errno": errno.errorcode.get(number, "")}
    )
