"""The memory of one request whose buffers were planned."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np
import numpy.typing as npt

from tenure._array_spec import ArraySpec
from tenure.buffer import Buffer, Buffers
from tenure.errors import (
    ACQUIRED,
    NOT_ACQUIRED,
    PLAN_TOO_SMALL,
    SLOT_CLOSED,
    LeaseLostError,
    TenureError,
    forked_error,
    plan_overlap_error,
)
from tenure.slot_buffer import SlotBuffer

if TYPE_CHECKING:
    from tenure.plan import BufferPlan, BufferUse
    from tenure.pool import BufferPool


@dataclass
class _Storage:
    """Memory in use, of one buffer or of views of the same."""

    memory: Buffer
    low: int
    """Of its first byte, in `memory`."""
    high: int
    users: dict[str, int]
    """How often each of its buffers has to be released."""


class PlannedSlot:
    """An instance of a plan, for one request at a time; made by `BufferPlan.open_slot`.

    A buffer gets the bytes that the plan has for it, if nobody uses them. All of it is one buffer of the
    pool, which is released when the slot is closed, at the end of a `with` block, or when the slot and all
    arrays of it are gone. Arrays that are there after that can still be used but may show another buffer.

    Leaving a `with` block raises LeaseLostError if the memory had been lost before.

    Thread-safe.
    """

    def __init__(
        self,
        pool: BufferPool,
        plan: BufferPlan,
        memory: Buffer,
        fall_back: bool,
        wait: float,
        priority: int,
    ) -> None:
        self._pool = pool
        self._plan = plan
        self._memory = memory
        self._offsets = plan.offsets
        self._fall_back = fall_back
        self._wait = wait
        self._priority = priority
        self._lock = threading.Lock()  # guards what follows
        self._in_use: dict[object, _Storage] = {}
        self._closed = False

    @property
    def plan(self) -> BufferPlan:
        """What it is an instance of."""
        return self._plan

    @property
    def nbytes(self) -> int:
        """How much memory it has, without what fell back."""
        return self._memory.nbytes

    @property
    def valid(self) -> bool:
        """Whether the memory is still there. Once False it stays so."""
        return not self._closed and self._memory.valid

    @property
    def closed(self) -> bool:
        """Whether it was closed, lost before that or not."""
        return self._closed

    def acquire(
        self,
        name: str,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: npt.DTypeLike = np.uint8,
        *,
        alignment: int = 1,
    ) -> SlotBuffer:
        """Gives a buffer its memory. Views of one memory may be acquired while others of them are.

        Parameters
        ----------
        name : str
            Its id in the plan.
        shape : int or sequence of int
            Of the array; so many bytes if it is a number and `dtype` is not given.
        dtype : dtype
            Of the array.
        alignment : int
            Of its address: a power of two. The dtype's own is seen to.

        Raises
        ------
        TenureError
            `PLAN_TOO_SMALL` if it is larger or more aligned than planned. `PLAN_OVERLAP` if a buffer that
            the plan has on the same bytes is still in use: the value `other`. With `fall_back` a buffer of
            the pool is given instead, unless the memory is that of a view in use. `NOT_PLANNED`,
            `ACQUIRED`, `SLOT_CLOSED`.
        LeaseLostError
            If the memory was lost.
        """
        if self._pool.forked:
            raise forked_error()
        spec = ArraySpec.of(shape, dtype, alignment)
        if spec.nbytes == 0:
            raise ValueError(f"a buffer has at least one byte, unlike {spec.shape} of {spec.dtype}")
        alignment = max(alignment, spec.dtype.alignment)
        with self._lock:
            self._check_open()
            use = self._plan.use_of(name)
            key = _storage_of(use)
            storage = self._in_use.get(key)
            if storage is not None and name in storage.users:
                raise _about(name, ACQUIRED, "a buffer that is acquired already")
            if storage is None:
                storage = self._take(use, spec.nbytes, alignment)
                self._in_use[key] = storage
            elif storage.memory is not self._memory:
                if spec.nbytes > storage.high:
                    raise _about(name, PLAN_TOO_SMALL, "a view that is larger than its memory")
            elif spec.nbytes > use.nbytes or alignment > use.alignment:
                raise _too_small(name)
            storage.users[name] = 1
            planned = storage.memory is self._memory
            return SlotBuffer(self, name, storage.memory, storage.low, spec, planned)

    def add_view(self, name: str) -> None:
        """Counts one more view of an acquired buffer, which the plan knows nothing of: it is in use until it
        was released once more.

        Raises
        ------
        TenureError
            `NOT_ACQUIRED`, `NOT_PLANNED`, `SLOT_CLOSED`.
        """
        with self._lock:
            self._check_open()
            self._users_of(name)[name] += 1

    def release(self, name: str) -> None:
        """Says that nobody uses a buffer any more; its memory is free for others once the last view of it was
        released.

        Raises
        ------
        TenureError
            `NOT_ACQUIRED`, `NOT_PLANNED`, `SLOT_CLOSED`.
        """
        with self._lock:
            self._check_open()
            users = self._users_of(name)
            users[name] -= 1
            if users[name] == 0:
                del users[name]
            if users:
                return
            memory = self._in_use.pop(_storage_of(self._plan.use_of(name))).memory
        if memory is not self._memory:
            memory.release()

    def close(self) -> None:
        """Gives all memory back now. Does nothing if the slot was closed before.

        Raises
        ------
        LeaseLostError
            If the memory had been lost before.
        TenureError
            If the daemon could not be told in time; it will be, behind the caller's back.
        """
        self._end().release()

    def __enter__(self) -> PlannedSlot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end().__exit__(kind, error, traceback)

    def __repr__(self) -> str:
        state = "closed" if self._closed else self._memory.lost_reason or "valid"
        return f"<tenure.PlannedSlot of {self.nbytes} bytes: {state}>"

    def _end(self) -> Buffers:
        if self._pool.forked:
            return Buffers()
        with self._lock:
            if self._closed:
                return Buffers()
            self._closed = True
            fallen = [each.memory for each in self._in_use.values() if each.memory is not self._memory]
            self._in_use.clear()
            return Buffers([self._memory, *fallen])

    def _check_open(self) -> None:
        if self._closed:
            raise TenureError("this slot was closed", SLOT_CLOSED)
        if self._memory.lost_reason:
            raise LeaseLostError("the memory of the slot is no more", self._memory.lost_reason)

    def _users_of(self, name: str) -> dict[str, int]:
        storage = self._in_use.get(_storage_of(self._plan.use_of(name)))
        if storage is None or name not in storage.users:
            raise _about(name, NOT_ACQUIRED, "a buffer that is not acquired")
        return storage.users

    def _take(self, use: BufferUse, nbytes: int, alignment: int) -> _Storage:
        """Finds memory for a storage of which nothing is in use. REQUIRES: the lock."""
        low = self._offsets[use.id]
        planned = _Storage(self._memory, low, low + self._plan.storage_bytes(use), {})
        failure: TenureError | None = None
        if nbytes > use.nbytes or alignment > use.alignment:
            failure = _too_small(use.id)
        for other in self._in_use.values():
            if other.memory is self._memory and other.low < planned.high and planned.low < other.high:
                first = next(iter(other.users))
                failure = plan_overlap_error(use.id, first, "the bytes of a buffer are still in use")
        if failure is None:
            return planned
        if not self._fall_back:
            raise failure
        size = max(nbytes, planned.high - planned.low)
        memory = self._pool.acquire(
            size,
            alignment=max(alignment, use.alignment),
            wait=self._wait,
            priority=self._priority,
        )
        return _Storage(memory, 0, size, {})


def _storage_of(use: BufferUse) -> object:
    return use.id if use.alias_group is None else use.alias_group


def _too_small(name: str) -> TenureError:
    return _about(name, PLAN_TOO_SMALL, "a buffer that is larger or more aligned than planned")


def _about(name: str, reason: str, what: str) -> TenureError:
    return TenureError(f"{what}: {name!r}", reason, {"buffer": name})
