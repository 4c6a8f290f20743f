"""The runtime memory of one device, out of which buffers come."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import SupportsIndex, get_args

import numpy as np
import numpy.typing as npt

from tenure import _translate
from tenure._array_spec import ArraySpec
from tenure._connection import Connection
from tenure._deadline import Deadline
from tenure._rpc import PLAN_BUFFERS
from tenure.buffer import (
    DEFAULT_ALIGNMENT,
    Buffer,
    BufferKind,
    Buffers,
    BufferSpec,
    release_all,
    release_on_exit,
)
from tenure.errors import RELEASED, TenureError, protocol_error
from tenure.plan import BufferPlan, BufferUse
from tenure.scope import DEFAULT_SLAB_BYTES, Scope
from tenure.v1 import buffer_pb2, plan_pb2

_KINDS = {kind: f"BUFFER_KIND_{kind.upper()}" for kind in get_args(BufferKind)}
_MOST_PRIORITY = (1 << 32) - 1
# So many plans are kept.
_MOST_PLANS = 64


class BufferPool:
    """Runtime memory for inference; made by `Client.open_pool`.

    Every buffer comes from the daemon and goes back to it; what is mapped stays so for quick return until
    the daemon wants it for others, which then get it though this client is busy computing. When the lease
    on the memory is lost, so are the buffers, but new ones can be acquired.

    Thread-safe. A context manager that closes.
    """

    def __init__(self, connection: Connection, device: str, timeout: float) -> None:
        self._connection = connection
        self._device = device
        self._timeout = timeout
        self._lock = threading.Lock()  # guards what follows
        self._buffers: weakref.WeakSet[Buffer] = weakref.WeakSet()
        self._closed = False
        self._plans: dict[tuple[tuple[BufferUse, ...], float | None], BufferPlan] = {}

    @property
    def device(self) -> str:
        """Where the memory is; empty until the daemon has chosen, with the first buffer."""
        return self._device

    def acquire(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: npt.DTypeLike = np.uint8,
        *,
        alignment: int = DEFAULT_ALIGNMENT,
        kind: BufferKind = "activation",
        wait: float = 0.0,
        priority: int = 0,
        timeout: float | None = None,
    ) -> Buffer:
        """Acquires one buffer.

        Parameters
        ----------
        shape : int or sequence of int
            Of the array; so many bytes if it is a number and `dtype` is not given.
        dtype : dtype
            Of the array.
        alignment : int
            Of its address: a power of two, at most 2 MiB.
        kind : "activation", "workspace" or "io"
            What it is for; see BufferKind.
        wait : float
            How many seconds to wait for room that others hold. What is on its way back is waited for in
            any case.
        priority : int
            Among those who wait for room the highest is served first.
        timeout : float, optional
            Seconds; the client's and `wait` unless given.

        Raises
        ------
        TenureError
            If there is no room: `CAPACITY`, `FRAGMENTED`, `HELD_BY_LEASES`, `RECLAIM_PENDING` or `BACKEND`,
            with what is free and who holds the rest. `UNSUPPORTED_BACKEND` if the device is a GPU.
        """
        spec = BufferSpec(shape, dtype, alignment, kind)
        return self.acquire_many([spec], wait=wait, priority=priority, timeout=timeout)[0]

    def acquire_many(
        self,
        specs: Iterable[BufferSpec],
        *,
        wait: float = 0.0,
        priority: int = 0,
        timeout: float | None = None,
    ) -> Buffers:
        """Acquires buffers, all or nothing, in one call.

        Parameters
        ----------
        specs : iterable of BufferSpec
            At most 1,000.
        wait, priority, timeout
            As in `acquire`.

        Returns
        -------
        Buffers
            In the order of `specs`; a context manager that releases all of them.
        """
        if not 0 <= wait < math.inf:
            raise ValueError(f"nobody waits for {wait} s")
        if not 0 <= priority <= _MOST_PRIORITY:
            raise ValueError(f"a priority is from 0 to {_MOST_PRIORITY}, not {priority}")
        request = buffer_pb2.AcquireBuffersRequest(device=self._device, priority=priority)
        request.wait.CopyFrom(_translate.duration(wait))
        arrays: list[ArraySpec] = []
        for spec in specs:
            arrays.append(ArraySpec.of(spec.shape, spec.dtype, spec.alignment))
            request.buffers.append(spec_message(arrays[-1], spec))
        self.check_open()
        if not arrays:
            return Buffers()
        deadline = Deadline(self._timeout + wait if timeout is None else timeout)
        granted, held = self._connection.acquire_buffers(request, deadline)
        self._device = granted.device
        acquired = Buffers(
            Buffer(self._connection, each, window, array) for (each, window), array in zip(held, arrays)
        )
        for buffer in acquired:
            self._connection.track(buffer)
        with self._lock:
            closed = self._closed
            self._buffers.update(acquired)
        if closed:
            acquired.release()
        self.check_open()
        return acquired

    def scope(
        self,
        *,
        kind: BufferKind = "activation",
        slab_bytes: int = DEFAULT_SLAB_BYTES,
        wait: float = 0.0,
        priority: int = 0,
    ) -> Scope:
        """Opens a scope for the buffers of one request; others may be open at once.

        Parameters
        ----------
        kind, wait, priority
            As in `acquire`, for what the scope acquires.
        slab_bytes : int
            How much it acquires at a time, as long as there is room for that; at least 1.

        Returns
        -------
        Scope
            A context manager that releases them together.
        """
        if slab_bytes < 1 or kind not in _KINDS:
            raise ValueError(f"a scope has no slabs of {slab_bytes} bytes and kind {kind!r}")
        self.check_open()
        return Scope(self, kind, slab_bytes, wait, priority)

    def plan(
        self,
        uses: Iterable[BufferUse],
        *,
        budget: float | None = None,
        timeout: float | None = None,
    ) -> BufferPlan:
        """Has the daemon plan where the buffers of a request lie, so that one allocation serves all of them.

        For the same uses, in the same order, and the same budget it gives the plan that it gave before.

        Parameters
        ----------
        uses : iterable of BufferUse
            At most 100,000.
        budget : float, optional
            For how many seconds to look for a lower plan; as the daemon is configured unless given, which is
            also the most.
        timeout : float, optional
            Seconds; the client's unless given.

        Raises
        ------
        TenureError
            `INVALID_PLAN_INPUT` for what makes no sense, with the values `buffer` and `fault`. `LIMIT` for
            too many buffers, or where too many wait for plans.
        """
        planned = tuple(uses)
        self.check_open()
        key = (planned, budget)
        with self._lock:
            known = self._plans.pop(key, None)
            if known is not None:
                self._plans[key] = known  # the last to go
                return known
        request = _translate.plan_request(planned, budget)
        reply = self._connection.call(
            PLAN_BUFFERS, request, Deadline(self._timeout if timeout is None else timeout)
        )
        _check_plan(planned, reply)
        plan = BufferPlan(
            self, planned, reply.offsets, reply.height, reply.lower_bound, reply.proven
        )
        with self._lock:
            self._plans[key] = plan
            if len(self._plans) > _MOST_PLANS:
                del self._plans[next(iter(self._plans))]
        return plan

    def close(self) -> None:
        """Releases every buffer that was acquired here and not released, those of scopes too.

        Raises
        ------
        LeaseLostError
            If one of them had been lost before.
        """
        release_all(self._connection, self._end())

    @property
    def forked(self) -> bool:
        """Whether this is a forked child, where nothing is left of it and locks may never be free."""
        return self._connection.session.forked

    def check_open(self) -> None:
        """Raises TenureError if the pool or its client was closed."""
        self._connection.session.check()
        if self._closed:
            raise TenureError("this pool was closed", RELEASED)

    def __enter__(self) -> BufferPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        release_on_exit(self._connection, self._end(), error)

    def _end(self) -> list[Buffer]:
        if self.forked:
            return []
        with self._lock:
            self._closed = True
            return [buffer for buffer in self._buffers if not buffer.released]


def spec_message(array: ArraySpec, spec: BufferSpec) -> buffer_pb2.BufferSpec:
    """Turns what a caller asks for, with `array` made of it. Raises ValueError for what no daemon grants."""
    if array.nbytes == 0:
        raise ValueError(f"a buffer has at least one byte, unlike {array.shape} of {array.dtype}")
    if array.nbytes >= 1 << 63:
        raise ValueError(f"no buffer has so many bytes: {array.nbytes}")
    if spec.kind not in _KINDS:
        raise ValueError(f"no kind of buffer: {spec.kind!r}")
    return buffer_pb2.BufferSpec(size=array.nbytes, alignment=spec.alignment, kind=_KINDS[spec.kind])


def _check_plan(uses: Sequence[BufferUse], reply: plan_pb2.PlanBuffersResponse) -> None:
    if len(reply.offsets) != len(uses) or any(
        offset + use.nbytes > reply.height or offset % use.alignment != 0
        for use, offset in zip(uses, reply.offsets)
    ):
        raise protocol_error("a plan of other buffers than those that were asked about")
