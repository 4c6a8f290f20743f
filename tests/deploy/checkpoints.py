"""Writes safetensors files of a known size; their bytes are holes, so that they take no room on the disk."""

from __future__ import annotations

import json
from pathlib import Path

MIB = 1 << 20


def write(path: Path, tensors: int, tensor_bytes: int, first_byte: int = 0) -> int:
    """Writes so many tensors of so many bytes, which are zero but for the first; gives the bytes of all.

    Files of the same tensors have the same architecture, whatever their first byte.
    """
    header = {
        f"layers.{i}.weight": {
            "dtype": "U8",
            "shape": [tensor_bytes],
            "data_offsets": [i * tensor_bytes, (i + 1) * tensor_bytes],
        }
        for i in range(tensors)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + bytes([first_byte]))
        file.truncate(8 + len(text) + tensors * tensor_bytes)
    return tensors * tensor_bytes
