"""Writes safetensors files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1, "BOOL": 1, "F8_E4M3": 1}


@dataclass(frozen=True)
class ModelFile:
    """A file, and the bytes of each of its tensors."""

    path: Path
    tensors: dict[str, bytes]


def write(path: Path, specs: dict[str, tuple[str, tuple[int, ...]]], seed: int = 1) -> ModelFile:
    """Writes tensors of the given dtypes and shapes, filled with numbers that `seed` chooses."""
    numbers = np.random.default_rng(seed)
    tensors: dict[str, bytes] = {}
    header: dict[str, object] = {}
    end = 0
    for name, (dtype, shape) in specs.items():
        size = int(np.prod(shape, dtype=np.int64)) * ITEM_BYTES[dtype]
        content: npt.NDArray[np.uint8] = numbers.integers(0, 2, size, np.uint8)
        if dtype != "BOOL":
            content = numbers.integers(0, 256, size, np.uint8)
        tensors[name] = content.tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(tensors.values()))
    return ModelFile(path, tensors)


def write_floats(path: Path, mebibytes: float, seed: int = 1) -> ModelFile:
    """Writes a model of one tensor `w` of that size."""
    return write(path, {"w": ("F32", (int(mebibytes * (1 << 18)),))}, seed)
