#!/usr/bin/env python3
"""Loads a snapshot as Python's and the viewer's own reader do, and checks what the viewer reads.

    torch_snapshot_test.py FILE
"""

import pickle
import pickletools
import sys
from pathlib import Path
from typing import Any

MIB = 1 << 20
# What https://pytorch.org/memory_viz can read; anything else it refuses.
OPCODES = {
    "PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPENDS", "BINUNICODE", "BININT", "LONG1",
    "NEWTRUE", "NEWFALSE", "STOP",
}  # fmt: skip


def check_segment(segment: dict[str, Any]) -> None:
    """Checks that a segment has what the viewer reads, and that its blocks fill it."""
    address = segment["address"]
    assert 0 < address < 1 << 53, "the viewer's numbers are exact up to there"
    for block in segment["blocks"]:
        assert block["address"] == address
        assert block["requested_size"] <= block["size"]
        assert block["state"] in ("active_allocated", "inactive")
        assert all(set(frame) == {"name", "filename", "line"} for frame in block["frames"])
        address += block["size"]
    assert address == segment["address"] + segment["total_size"]
    active = sum(block["size"] for block in segment["blocks"] if block["state"] == "active_allocated")
    assert segment["active_size"] == segment["allocated_size"] == active
    assert segment["segment_type"] in ("large", "small")
    assert isinstance(segment["stream"], int)
    assert isinstance(segment["frames"], list)


def main() -> None:
    """Checks the file."""
    data = Path(sys.argv[1]).read_bytes()
    used = {opcode.name for opcode, _, _ in pickletools.genops(data)}
    assert used <= OPCODES, used - OPCODES
    snapshot = pickle.loads(data)
    assert snapshot["device_traces"] == [[]]
    segments = snapshot["segments"]
    for segment in segments:
        check_segment(segment)
        assert segment["device"] == 0
    ends = [(each["address"], each["address"] + each["total_size"]) for each in segments]
    assert all(end <= begin for (_, end), (begin, _) in zip(ends, ends[1:]))
    sizes = [(each["total_size"], each["active_size"]) for each in segments]
    # Three regions, of which the last is retained; a cached segment; the pool's two side by side.
    assert sizes == [
        (256 * MIB, 256 * MIB), (128 * MIB, 128 * MIB), (128 * MIB, 0), (64 * MIB, 0), (16 * MIB, 10 * MIB),
    ], sizes  # fmt: skip
    assert segments[0]["blocks"][0]["frames"][0]["name"] == "shop/ranker@3 leased"
    assert segments[0]["blocks"][0]["requested_size"] == 268430000
    pool = [(block["size"], block["state"]) for block in segments[-1]["blocks"]]
    assert pool == [
        (2 * MIB, "active_allocated"), (4 * MIB, "inactive"), (2 * MIB, "active_allocated"),
        (6 * MIB, "active_allocated"), (2 * MIB, "inactive"),
    ], pool  # fmt: skip


main()
