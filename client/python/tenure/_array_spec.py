"""Shapes and dtypes of arrays in memory that is handed out by the byte."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tenure._window import Window, bytes_of

MOST_ALIGNMENT = 2 << 20


@dataclass(frozen=True)
class ArraySpec:
    """One array; made by `of`."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(
        cls, shape: SupportsIndex | Sequence[SupportsIndex], dtype: npt.DTypeLike, alignment: int
    ) -> ArraySpec:
        """Checks what a caller asks for. Raises TypeError or ValueError as NumPy would."""
        extents = (shape,) if isinstance(shape, SupportsIndex) else tuple(shape)
        spec = cls(tuple(map(operator.index, extents)), np.dtype(dtype))
        if any(extent < 0 for extent in spec.shape):
            raise ValueError(f"an array has no negative extent: {spec.shape}")
        if spec.dtype.hasobject:
            raise TypeError(f"memory that others can see holds no Python objects, as {spec.dtype} would")
        if not 0 < alignment <= MOST_ALIGNMENT or alignment & (alignment - 1) != 0:
            raise ValueError(f"an alignment is a power of two up to {MOST_ALIGNMENT}, not {alignment}")
        return spec

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def show(self, window: Window, offset: int) -> npt.NDArray[Any]:
        """Shows the array that begins at an offset of a window, without a copy."""
        return np.ndarray(self.shape, self.dtype, bytes_of(window, offset, self.nbytes))
