"""What this process has mapped."""

from __future__ import annotations

from pathlib import Path


def lines_of_maps(address: int) -> list[str]:
    """Finds what this process has mapped at an address."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        if first <= address < last:
            found.append(line)
    return found


def is_held(address: int) -> bool:
    """Tells whether the daemon's memory or a reservation is at an address, whatever else may be."""
    return any("memfd:tenure-" in line or " ---p " in line for line in lines_of_maps(address))
