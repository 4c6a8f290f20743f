"""What tests of runtime memory ask the daemon and the kernel."""

from __future__ import annotations

from tenure import ArenaLedger, Client

MIB = 1 << 20


def ledger(client: Client) -> ArenaLedger:
    """Asks for the ledger of the runtime arena."""
    return client.status().devices[0].arenas["runtime"]


def nothing_leased(client: Client) -> bool:
    """Tells whether the daemon knows of no live buffer."""
    return ledger(client).leased == 0
