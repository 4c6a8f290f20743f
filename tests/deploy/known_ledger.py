"""Brings a daemon's ledger, and what it has counted, to numbers that are known beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import checkpoints
from checkpoints import MIB
from client_library import tenure
from client_process import ClientProcess
from processes import Daemon, eventually

CONFIG = """\
directory: {directory}
metrics: {{address: "127.0.0.1:0", model_bytes: true}}
model_roots: [{{name: models, path: {models}}}]
devices: [{{name: "host:0", total: 512MiB, weights: 256MiB, runtime: 64MiB}}]
weights: {{segment_size: 2MiB, retain_ttl: never, concurrent_loads: 1}}
runtime: {{segment_size: 8MiB, pool_ttl: never}}
"""

# Payloads. Those of `padded` leave padding behind: each tensor's end, and the last granule's.
GRANULE = 2 * MIB
WHOLE = 4 * MIB
PADDED = 3 * 700_001
PADDED_REGION = 2 * GRANULE
BUFFER = MIB

WEIGHTS = {
    "capacity": 256 * MIB,
    "leased": WHOLE + PADDED,
    "quarantined": WHOLE,
    "padding": PADDED_REGION - PADDED,
    "retained": WHOLE,
    "idle": 0,
    "loading": 0,
    "cached": 0,
    "pooled": 0,
    "stranded": 0,
    "reserved": 3 * WHOLE + PADDED_REGION,
    "allocated": 2 * WHOLE + PADDED_REGION,
    "requested": 2 * WHOLE + PADDED,
    "unbacked": 256 * MIB - 3 * WHOLE - PADDED_REGION,
    "free": 256 * MIB - 3 * WHOLE - PADDED_REGION,
    "largest_free": 256 * MIB - 3 * WHOLE - PADDED_REGION,
}
RUNTIME = {
    "capacity": 64 * MIB,
    "leased": 2 * BUFFER,
    "pooled": 8 * MIB - 2 * BUFFER,
    "reserved": 8 * MIB,
    "allocated": 2 * BUFFER,
    "requested": 2 * BUFFER,
    "unbacked": 56 * MIB,
    "free": 64 * MIB - 2 * BUFFER,
}
LOADS = {"FRESH": 4, "REVIVED": 1, "ADOPTED": 1, "RESIDENT": 1, "RECYCLED": 0}
COPIED = 4 * WHOLE + PADDED
FAILURES = {"FILE_NOT_FOUND": 2, "CAPACITY": 1}
SEGMENTS_CREATED = 3 * 2 + 2 + 1  # of weights, and one of runtime memory


@contextmanager
def known(daemon: Daemon) -> Iterator[None]:
    """Does what comes to the numbers above; holds it as long as the block."""
    write_models(daemon.models)
    load_and_unload(daemon)
    with tenure.connect(daemon.directory, program="ranker") as client:
        held = [client.acquire(name) for name in ("second", "second", "padded")]
        held.pop().release()
        held.append(client.acquire("padded"))
        with client.open_pool() as pool, ClientProcess(daemon.directory, "silent") as silent:
            buffers = [pool.acquire(BUFFER) for _ in range(3)]
            buffers.pop().release()
            refused(lambda: pool.acquire(65 * MIB))
            silent.ask("lease silent 1")
            silent.pause()
            with ClientProcess(daemon.directory, "killed") as killed:
                killed.kill()
            eventually("all is as it is to be", lambda: mismatch(daemon) == {})
            yield
            del buffers
        del held


def write_models(folder: Path) -> None:
    """Writes the files."""
    for first_byte, name in enumerate(("first", "second", "retained", "silent")):
        checkpoints.write(folder / f"{name}.safetensors", 4, MIB, first_byte)
    checkpoints.write(folder / "padded.safetensors", 3, 700_001)
    checkpoints.write(folder / "huge.safetensors", 1, 300 * MIB)


def load_and_unload(daemon: Daemon) -> None:
    """Loads in each way but one, and fails thrice."""
    for name in ("first", "retained", "silent", "padded"):
        # The same architecture would be adopted if it were offline.
        load(daemon, name, "fresh")
    daemon.ctl("unload", "first")
    load(daemon, "first", "revived")
    daemon.ctl("unload", "first")
    load(daemon, "second", "adopted")
    load(daemon, "second", "resident")
    daemon.ctl("unload", "retained")
    daemon.ctl("load", "huge", "models/huge.safetensors", succeeds=False)
    for _ in range(FAILURES["FILE_NOT_FOUND"]):
        daemon.ctl("load", "absent", "models/absent.safetensors", succeeds=False)


def load(daemon: Daemon, name: str, reuse: str) -> None:
    """Loads a model, and checks how it got its memory."""
    reply = daemon.ctl("load", name, f"models/{name}.safetensors")
    assert reply["reuse"] == reuse, reply


def refused(call: object) -> None:
    """Makes a call that is to be refused for want of room."""
    try:
        call()  # type: ignore[operator]
    except tenure.TenureError as error:
        assert error.reason == "CAPACITY", error
    else:
        raise AssertionError("it was not refused")


def mismatch(daemon: Daemon) -> dict[str, tuple[float, float]]:
    """Where the daemon's own ledger is not what it is to be yet: what it is, and what it is to be."""
    found = {}
    for arena, expected in (("weights", WEIGHTS), ("runtime", RUNTIME)):
        ledger = daemon.ledger(arena)
        for key, value in expected.items():
            if ledger[key] != value:
                found[f"{arena} {key}"] = (ledger[key], value)
    return found
