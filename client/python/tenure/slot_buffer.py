"""One buffer of a slot as a NumPy array."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tenure._array_spec import ArraySpec
from tenure.buffer import ArrayOwner, Buffer
from tenure.errors import RELEASED, LeaseLostError

if TYPE_CHECKING:
    from tenure.slot import PlannedSlot


class SlotBuffer(ArrayOwner):
    """One buffer of a slot; valid until it is released or the slot is closed.

    Leaving a `with` block releases it, if that was not done.
    """

    def __init__(
        self, slot: PlannedSlot, name: str, memory: Buffer, offset: int, spec: ArraySpec, planned: bool
    ) -> None:
        super().__init__(spec)
        self._slot = slot
        self._name = name
        self._memory = memory
        self._offset = offset
        self._planned = planned
        self._released = False

    @property
    def name(self) -> str:
        """Its id in the plan."""
        return self._name

    @property
    def planned(self) -> bool:
        """Whether it lies where the plan says; False if it fell back."""
        return self._planned

    @property
    def lost_reason(self) -> str:
        """As in ArrayOwner."""
        return RELEASED if self._released else self._memory.lost_reason

    @property
    def array(self) -> npt.NDArray[Any]:
        """As in ArrayOwner. After `release` it can still be used but may show another buffer."""
        if self._released:
            raise LeaseLostError(f"the buffer was released: {self._name!r}", RELEASED)
        return self._memory.show(self._spec, self._offset)

    def release(self) -> None:
        """Says that nobody uses it any more. Does nothing if that was said before."""
        if not self._released:
            self._released = True
            self._slot.release(self._name)

    def __enter__(self) -> SlotBuffer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._slot.closed:
            self.release()

    def __repr__(self) -> str:
        state = self.lost_reason or "valid"
        return f"<tenure.SlotBuffer {self._name!r} {self.shape} {self.dtype}: {state}>"
