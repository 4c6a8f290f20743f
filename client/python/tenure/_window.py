"""Where NumPy meets memory that is not its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Window:
    """Through which one lease or buffer sees its memory. Every array that shows it keeps it alive.

    Parameters
    ----------
    mapping : object
        What unmaps the memory once nothing refers to it.
    address : int
        Of the first byte.
    size : int
        In bytes.
    writable : bool
        Whether arrays may be written to.
    """

    def __init__(self, mapping: object, address: int, size: int, *, writable: bool) -> None:
        self._mapping = mapping
        self._address = address
        self._size = size
        self._writable = writable
        self.keeps_alive: object = None
        """What must not go before the last array."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """All of it as bytes, for NumPy."""
        return {
            "version": 3,
            "typestr": "|u1",
            "shape": (self._size,),
            "data": (self._address, not self._writable),
        }


def bytes_of(window: Window, offset: int, size: int) -> npt.NDArray[np.uint8]:
    """Shows a part of what a window sees as bytes, without a copy."""
    return np.asarray(window)[offset : offset + size]
