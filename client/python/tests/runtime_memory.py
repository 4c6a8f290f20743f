"""What tests of runtime memory ask the daemon and the kernel."""

from __future__ import annotations

from pathlib import Path

from tenure import ArenaLedger, Client

MIB = 1 << 20


def ledger(client: Client) -> ArenaLedger:
    """Asks for the ledger of the runtime arena."""
    return client.status().devices[0].arenas["runtime"]


def nothing_leased(client: Client) -> bool:
    """Tells whether the daemon knows of no live buffer."""
    return ledger(client).leased == 0


def lines_of_maps(address: int) -> list[str]:
    """Finds what this process has mapped at an address."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        if first <= address < last:
            found.append(line)
    return found
