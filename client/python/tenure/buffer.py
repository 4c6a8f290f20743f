"""Runtime memory as NumPy arrays that can be written to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from tenure._array_spec import ArraySpec
from tenure._pools import HeldBuffer
from tenure._window import Window
from tenure.errors import RELEASED, LeaseLostError, TenureError

if TYPE_CHECKING:
    from tenure._connection import Connection

BufferKind = Literal["activation", "workspace", "io"]
"""What a buffer is for: results of one layer for the next ones, scratch memory of one operator, or inputs
and outputs, which may outlive the request. Each kind has a part of the pool of its own."""

DEFAULT_ALIGNMENT = 256


@dataclass(frozen=True)
class BufferSpec:
    """One buffer for `BufferPool.acquire_many`, as for `BufferPool.acquire`."""

    shape: SupportsIndex | Sequence[SupportsIndex]
    dtype: npt.DTypeLike = np.uint8
    alignment: int = DEFAULT_ALIGNMENT
    kind: BufferKind = "activation"


class ArrayOwner(ABC):
    """Memory with a shape and a dtype. `numpy.asarray` takes it too."""

    def __init__(self, spec: ArraySpec) -> None:
        self._spec = spec

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return self._spec.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the array."""
        return self._spec.dtype

    @property
    def nbytes(self) -> int:
        """Of the array."""
        return self._spec.nbytes

    @property
    def valid(self) -> bool:
        """Whether the memory is still there. Once False it stays so."""
        return not self.lost_reason

    @property
    @abstractmethod
    def lost_reason(self) -> str:
        """Why it is not valid: "RELEASED", "LEASE_EXPIRED", "DAEMON_GONE"; empty while it is."""

    @property
    @abstractmethod
    def array(self) -> npt.NDArray[Any]:
        """The memory, in C order, without a copy; what it holds at first is not defined.

        Raises
        ------
        LeaseLostError
            If it is not valid.
        """

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Gives `array` to NumPy, as `numpy.asarray` wants it."""
        array = self.array
        if dtype is None or np.dtype(dtype) == array.dtype:
            return array.copy() if copy else array
        if copy is False:
            raise ValueError(f"an array of {array.dtype} is not one of {np.dtype(dtype)} without a copy")
        return array.astype(dtype)


class Buffer(ArrayOwner):
    """One buffer of a pool; made by `BufferPool.acquire`.

    It lives until it is released, or until this object and every array taken from it are gone. After
    `release` an array can still be used but may show another buffer, and as long as it is there this
    process cannot give the memory back: copy what has to outlive the buffer.

    Leaving a `with` block releases; if the buffer had been lost before, that raises LeaseLostError.

    In a forked child the buffer is invalid and its memory is not mapped: using an array is a fault there.

    Thread-safe.
    """

    def __init__(self, connection: Connection, held: HeldBuffer, window: Window, spec: ArraySpec) -> None:
        super().__init__(spec)
        self._connection = connection
        self._held = held
        self._window: Window | None = window

    @property
    def device(self) -> str:
        """Where it lies."""
        return self._held.pool.device

    @property
    def buffer_id(self) -> int:
        """Unique within one boot of the daemon."""
        return self._held.buffer_id

    @property
    def offset(self) -> int:
        """Of its first byte in its pool."""
        return self._held.offset

    @property
    def lost_reason(self) -> str:
        """As in ArrayOwner."""
        return self._connection.session.lost_reason(self._held)

    @property
    def released(self) -> bool:
        """Whether it was released, lost before that or not."""
        return self._held.dropped

    @property
    def array(self) -> npt.NDArray[Any]:
        """As in ArrayOwner."""
        return self.show(self._spec, 0)

    def show(self, spec: ArraySpec, offset: int) -> npt.NDArray[Any]:
        """Shows a part of it as another array."""
        reason = self.lost_reason
        # The error's traceback must not keep the memory.
        window = None if reason else self._window
        if window is None:
            raise lost_error([self], reason or RELEASED)
        return spec.show(window, offset)

    def release(self) -> None:
        """Gives the memory back now. Does nothing if the buffer was released before.

        Raises
        ------
        LeaseLostError
            If the buffer had been lost before.
        TenureError
            If the daemon could not be told in time; it will be, behind the caller's back.
        """
        release_all(self._connection, [self])

    def detach(self) -> HeldBuffer | None:
        """Lets go of the memory without telling the daemon; arrays that are there keep it mapped.

        Returns
        -------
        HeldBuffer or None
            What the daemon is to be told of; None if somebody has done so.
        """
        session = self._connection.session
        if session.forked:
            return None
        # Dropped first, or whoever sees the window close would tell the daemon too.
        mine = session.drop_buffer(self._held)
        self._window = None
        return self._held if mine else None

    def __enter__(self) -> Buffer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        release_on_exit(self._connection, [self], error)

    def __repr__(self) -> str:
        state = self.lost_reason or "valid"
        return f"<tenure.Buffer {self.buffer_id} {self.shape} {self.dtype} on {self.device}: {state}>"


class Buffers(tuple[Buffer, ...]):
    """Buffers that were acquired together. A context manager that releases all of them."""

    def release(self) -> None:
        """Gives all of them back now, in one call; as `Buffer.release`."""
        if self:
            release_all(self[0]._connection, self)

    def __enter__(self) -> Buffers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self:
            release_on_exit(self[0]._connection, self, error)


def release_all(connection: Connection, buffers: Sequence[Buffer]) -> None:
    """Releases those of the buffers of a connection that were not released yet; as `Buffer.release`."""
    lost: list[Buffer] = []
    reason = ""
    live: dict[int, Buffer] = {}
    released: list[HeldBuffer] = []
    forgotten: list[HeldBuffer] = []
    for buffer in buffers:
        why = buffer.lost_reason
        if why == RELEASED:
            continue
        buffer._held.lose(RELEASED)
        held = buffer.detach()
        if why:
            lost.append(buffer)
            reason = reason or why
            if held is not None:
                forgotten.append(held)
        elif held is not None:
            live[held.buffer_id] = buffer
            released.append(held)
    if forgotten:
        connection.start_release(forgotten)
    if released:
        unreleased = connection.release_buffers(released)
        lost.extend(live[buffer_id] for buffer_id in unreleased)
        reason = reason or next(iter(unreleased.values()), "")
    if lost:
        raise lost_error(lost, reason)


def release_on_exit(
    connection: Connection, buffers: Sequence[Buffer], error: BaseException | None
) -> None:
    """Releases at the end of a `with` block that ended with `error`."""
    try:
        release_all(connection, buffers)
    except TenureError:
        # What went wrong inside matters more.
        if error is None:
            raise


def lost_error(buffers: Sequence[Buffer], reason: str) -> LeaseLostError:
    """Makes the error for buffers that are not valid."""
    ids = ", ".join(str(buffer.buffer_id) for buffer in buffers[:10])
    more = ", ..." if len(buffers) > 10 else ""
    what = "the buffer is" if len(buffers) == 1 else "buffers are"
    return LeaseLostError(f"{what} no more: {ids}{more}", reason)
