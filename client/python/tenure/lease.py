"""The right to read one model's weights in place."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tenure._held_leases import HeldLease
from tenure._session import Session
from tenure._window import Window, bytes_of
from tenure.errors import LEASE_EXPIRED, LEASE_NOT_FOUND, RELEASED, LeaseLostError, TenureError
from tenure.model import TensorPlace
from tenure.v1 import model_pb2

# The file format's names of what NumPy has too.
_NUMPY_DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
    "C64": np.dtype("<c8"),
}


class WeightLease:
    """One model's tensors by name, as read-only NumPy arrays that show the daemon's memory.

    While `valid`, the addresses, the layout and the content stay as they are. The lease lives until it is
    released, or until this object and every array taken from it are gone. After `release` an array can
    still be read but may show another model, and as long as it is there this process cannot give the
    memory back: copy what has to outlive the lease.

    Leaving a `with` block releases; if the lease had been lost before, that raises LeaseLostError, so that
    whoever comes out of the block has read one model's bytes only.

    In a forked child the lease is invalid and its memory is not mapped: reading an array is a fault there.

    Thread-safe.
    """

    def __init__(
        self,
        session: Session,
        held: HeldLease,
        window: Window | None,
        granted: model_pb2.WeightLease,
        places: Mapping[str, TensorPlace],
        release: Callable[[HeldLease], None],
        client: object,
    ) -> None:
        self.name: str = granted.name
        self.revision: int = granted.revision
        self.device: str = granted.device
        self.lease_id: int = granted.lease_id
        self.region_id: int = granted.region_id
        self.generation: int = granted.generation
        """Of the content that the lease is for."""
        self.architecture_key: str = granted.architecture_key
        self._session = session
        self._held = held
        self._window = window
        self._places = places
        self._release = release
        self._client = client
        if window is not None:
            window.keeps_alive = client
        # Without a window there is no memory to read, and so nothing that outlives this object.
        self._unread = weakref.finalize(window or self, session.window_closed, held)
        self._unread.atexit = False

    @property
    def valid(self) -> bool:
        """Whether the lease lives. Once False it stays so."""
        return not self.lost_reason

    @property
    def lost_reason(self) -> str:
        """Why the lease is not valid: "LEASE_EXPIRED", "DAEMON_GONE", "RELEASED"; empty while it is."""
        return self._session.lost_reason(self._held)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Shows a tensor.

        Raises
        ------
        KeyError
            If the model has no such tensor.
        TypeError
            If NumPy has no such dtype; `raw` shows its bytes.
        LeaseLostError
            If the lease is not valid.
        """
        place = self._places[name]
        dtype = _NUMPY_DTYPES.get(place.dtype)
        if dtype is None:
            raise TypeError(f"NumPy has no {place.dtype}; raw() gives the bytes of {name!r}")
        return self.raw(name).view(dtype).reshape(place.shape)

    def raw(self, name: str) -> npt.NDArray[np.uint8]:
        """Shows a tensor's bytes, whatever its dtype.

        Raises
        ------
        KeyError
            If the model has no such tensor.
        LeaseLostError
            If the lease is not valid.
        """
        place = self._places[name]
        self._check()
        # Taken after the check: the error's traceback must not keep the memory.
        window = self._window
        if place.size > 0 and window is None:
            raise self._lost(RELEASED)
        if place.size == 0 or window is None:
            nothing = np.empty(0, np.uint8)
            nothing.setflags(write=False)
            return nothing
        return bytes_of(window, place.offset, place.size)

    def place(self, name: str) -> TensorPlace:
        """Gives a tensor's dtype, shape and place. Raises KeyError if the model has no such tensor."""
        return self._places[name]

    def tensors(self) -> tuple[TensorPlace, ...]:
        """Gives the tensor table in canonical order: names bytewise ascending."""
        return tuple(self._places.values())

    def keys(self) -> tuple[str, ...]:
        """Gives the tensors' names in canonical order."""
        return tuple(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def release(self) -> None:
        """Ends the lease now. Does nothing if it was released before.

        Raises
        ------
        LeaseLostError
            If the lease had been lost before.
        TenureError
            If the daemon could not be told in time; it will be, behind the caller's back.
        """
        reason = self.lost_reason
        if reason == RELEASED:
            return
        if reason:
            self.detach()
            raise self._lost(reason)
        self._held.lose(RELEASED)
        self.detach()
        try:
            self._release(self._held)
        except TenureError as failure:
            if failure.reason in (LEASE_EXPIRED, LEASE_NOT_FOUND):
                raise self._lost(failure.reason) from None
            raise

    def detach(self) -> None:
        """Lets go of the memory without telling the daemon; arrays that are there keep it mapped."""
        if self._session.forked:
            return
        window, self._window = self._window, None
        if window is None:
            self._unread.detach()
        self._session.drop(self._held)

    def __enter__(self) -> WeightLease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.release()
        except TenureError:
            # What went wrong inside matters more.
            if error is None:
                raise

    def __repr__(self) -> str:
        state = self.lost_reason or "valid"
        return f"<tenure.WeightLease {self.name}@{self.revision} on {self.device}: {state}>"

    def _check(self) -> None:
        reason = self.lost_reason
        if reason:
            raise self._lost(reason)

    def _lost(self, reason: str) -> LeaseLostError:
        return LeaseLostError(f"the lease on {self.name}@{self.revision} is no more", reason)
