"""The buffers of one request, released together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tenure._array_spec import ArraySpec
from tenure.buffer import DEFAULT_ALIGNMENT, ArrayOwner, Buffer, BufferKind, Buffers
from tenure.errors import RELEASED, LeaseLostError, TenureError, forked_error

if TYPE_CHECKING:
    from tenure.pool import BufferPool

DEFAULT_SLAB_BYTES = 1 << 20
# With more room than this no call would have failed.
_NO_ROOM = ("CAPACITY", "FRAGMENTED", "HELD_BY_LEASES", "RECLAIM_PENDING")


class ScopeBuffer(ArrayOwner):
    """One buffer of a scope; valid until the scope is released."""

    def __init__(self, slab: Buffer, offset: int, spec: ArraySpec) -> None:
        super().__init__(spec)
        self._slab = slab
        self._offset = offset

    @property
    def lost_reason(self) -> str:
        """As in ArrayOwner."""
        return self._slab.lost_reason

    @property
    def array(self) -> npt.NDArray[Any]:
        """As in ArrayOwner."""
        return self._slab.show(self._spec, self._offset)

    def clear(self) -> None:
        """Sets every byte to 0."""
        self._slab.show(ArraySpec((self.nbytes,), np.dtype(np.uint8)), self._offset).fill(0)

    def __repr__(self) -> str:
        return f"<tenure.ScopeBuffer {self.shape} {self.dtype}: {self.lost_reason or 'valid'}>"


class Scope:
    """Hands out one after the other, mostly without a call; made by `BufferPool.scope`.

    What it hands out lies side by side in slabs that it acquires as it grows. They are released together,
    at the end of a `with` block or when the scope and all arrays of it are gone. Arrays that are there
    after `release` can still be used but may show another buffer: copy what has to outlive the scope.

    Leaving a `with` block raises LeaseLostError if the memory had been lost before.

    Thread-safe.
    """

    def __init__(
        self, pool: BufferPool, kind: BufferKind, slab_bytes: int, wait: float, priority: int
    ) -> None:
        self._pool = pool
        self._kind: BufferKind = kind
        self._slab_bytes = slab_bytes
        self._wait = wait
        self._priority = priority
        self._lock = threading.Lock()  # guards what follows
        self._slabs: list[Buffer] = []
        self._used = 0  # bytes of the last slab
        self._released = False

    def acquire(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: npt.DTypeLike = np.uint8,
        *,
        alignment: int = DEFAULT_ALIGNMENT,
    ) -> ScopeBuffer:
        """Hands out a buffer, which may have no bytes; otherwise as `BufferPool.acquire`.

        Raises
        ------
        LeaseLostError
            If the scope was released, or its memory lost.
        TenureError
            If there is no room to grow.
        """
        spec = ArraySpec.of(shape, dtype, alignment)
        if self._pool.forked:
            raise forked_error()
        with self._lock:
            slab, offset = self._place(spec.nbytes, max(alignment, spec.dtype.alignment))
            return ScopeBuffer(slab, offset, spec)

    def empty(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: npt.DTypeLike = np.float64,
    ) -> npt.NDArray[Any]:
        """Hands out an array as `numpy.empty` does."""
        return self.acquire(shape, dtype).array

    def zeros(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: npt.DTypeLike = np.float64,
    ) -> npt.NDArray[Any]:
        """Hands out an array as `numpy.zeros` does."""
        buffer = self.acquire(shape, dtype)
        buffer.clear()
        return buffer.array

    def release(self) -> None:
        """Gives all of it back now, in one call. Does nothing if the scope was released before.

        Raises
        ------
        LeaseLostError
            If the memory had been lost before.
        TenureError
            If the daemon could not be told in time; it will be, behind the caller's back.
        """
        self._end().release()

    @property
    def slab_bytes(self) -> int:
        """How much memory it has acquired, in bytes."""
        return sum(slab.nbytes for slab in list(self._slabs))

    def __enter__(self) -> Scope:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end().__exit__(kind, error, traceback)

    def _end(self) -> Buffers:
        if self._pool.forked:
            return Buffers()
        with self._lock:
            self._released = True
            slabs, self._slabs = self._slabs, []
            return Buffers(slabs)

    def _place(self, size: int, alignment: int) -> tuple[Buffer, int]:
        """Finds room, and gives its slab and offset there. REQUIRES: the lock."""
        if self._released:
            raise LeaseLostError("the scope was released", RELEASED)
        for slab in self._slabs[-1:]:
            if slab.lost_reason:
                raise LeaseLostError("the memory of the scope is no more", slab.lost_reason)
            # The offset in the pool is what addresses are aligned by.
            offset = self._used + -(slab.offset + self._used) % alignment
            if offset + size <= slab.nbytes:
                self._used = offset + size
                return slab, offset
        slab = self._grow(max(size, 1), alignment)
        self._slabs.append(slab)
        self._used = size
        return slab, 0

    def _grow(self, size: int, alignment: int) -> Buffer:
        """Acquires a slab, of no more than is needed if there is not the room for more."""
        if size < self._slab_bytes:
            try:
                return self._pool.acquire(
                    self._slab_bytes, alignment=alignment, kind=self._kind, priority=self._priority
                )
            except TenureError as refused:
                if refused.reason not in _NO_ROOM:
                    raise
        return self._pool.acquire(
            size, alignment=alignment, kind=self._kind, wait=self._wait, priority=self._priority
        )
