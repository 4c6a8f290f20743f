"""A memory map of any size, as map.proto has it, that adds up."""

from __future__ import annotations

import random
from typing import Any

MIB = 1 << 20
GIB = 1 << 30
HOLDINGS = ("LEASED", "IDLE", "RETAINED", "LOADING", "QUARANTINED")
STATES = (
    "leased", "loading", "idle", "retained", "quarantined", "padding", "cached", "pooled", "stranded", "unbacked",
    "lost",
)  # fmt: skip
FAMILIES = ("ranker", "retriever", "tower", "embedder", "dlrm", "gnn", "moe", "ctr", "ltr", "bert")
PROGRAMS = ("ranking-server", "retrieval", "triton", "feature-store", "batch-scorer")
SEGMENT = 8 * MIB
Map = dict[str, Any]


def _ledger(arena: str, sums: dict[str, int], fragmentation: float) -> Map:
    sums["free"] = sums["cached"] + sums["pooled"] + sums["unbacked"]
    sums["allocated"] = sum(sums[state] for state in ("leased", "loading", "idle", "quarantined", "padding"))
    sums["requested"] = sums["allocated"] - sums["padding"]
    sums["reserved"] = sums["allocated"] + sums["retained"] + sums["cached"] + sums["pooled"]
    sums["largest_free"] = int(sums["free"] * (1 - fragmentation))
    ledger: Map = {name: str(value) for name, value in sums.items()}
    return {"arena": arena, "fragmentation_ratio": fragmentation, **ledger}


def _region(chance: random.Random, number: int) -> Map:
    size = chance.choice((1, 1, 2, 2, 3, 4, 6, 8, 16)) * SEGMENT
    holding = chance.choices(HOLDINGS, (50, 20, 24, 3, 3))[0]
    region: Map = {
        "region_id": str(number), "model": f"shop/{chance.choice(FAMILIES)}-{number % 400}",
        "revision": str(1 + number // 400), "pinned": number % 37 == 0, "state": "MODEL_STATE_ACTIVE",
        "holding": f"HOLDING_{holding}", "generation": str(1 + number % 5),
        "architecture_key": f"{number % 23 * 0x9E3779B97F4A7C15 % (1 << 128):032x}", "bytes": str(size),
        "tensor_bytes": str(size - 4096), "tensor_count": 297,
        "segments": [{"size": str(SEGMENT), "count": str(size // SEGMENT)}], "holders": [],
    }  # fmt: skip
    if holding == "RETAINED":
        region["expires_in"] = f"{chance.random() * 600:.3f}s"
    if holding == "LEASED":
        region["holders"] = [
            {"session_id": str(session), "leases": chance.randint(1, 4), "mapped": True, "quarantined": False,
             "lease_expires_in": f"{chance.random() * 30:.3f}s"}
            for session in chance.sample(range(1, 40), chance.randint(1, 3))
        ]  # fmt: skip
    return region


def _weights(chance: random.Random, first: int, count: int) -> Map:
    sums = dict.fromkeys(STATES, 0)
    regions = [_region(chance, first + i) for i in range(count)]
    for region in regions:
        state = region["holding"].removeprefix("HOLDING_").lower()
        padding = 0 if state == "retained" else 4096
        sums[state] += int(region["bytes"]) - padding
        sums["padding"] += padding
    taken = sum(int(region["bytes"]) for region in regions)
    capacity = (taken * 5 // 4 // (256 * MIB) + 1) * 256 * MIB
    sums["cached"] = 16 * SEGMENT
    sums["unbacked"] = capacity - taken - sums["cached"]
    ledger = _ledger("weights", sums, 0.0)
    ledger["capacity"] = str(capacity)
    cached = [{"size": str(SEGMENT), "count": "16"}]
    return {"ledger": ledger, "regions": regions, "pools": [], "cached": cached, "leaving_bytes": "0", "waiting": "0"}


def _pool(chance: random.Random, number: int) -> tuple[Map, int]:
    segments = [
        {"offset": str(i * SEGMENT), "mapped": True, "unanswered": False,
         "state": f"POOL_SEGMENT_STATE_{'OPEN' if i % 9 else 'GRANTED'}"}
        for i in range(chance.randint(8, 40))
    ]  # fmt: skip
    buffers: list[Map] = []
    used = 0
    for i in range(len(segments)):
        at = i * SEGMENT
        used += 0 if i % 9 else SEGMENT
        while i % 9 and at < (i + 1) * SEGMENT - 4 * MIB:
            size = chance.choice((1, 2, 4)) * MIB
            if chance.random() < 0.6:
                kind = chance.choice(("ACTIVATION", "ACTIVATION", "WORKSPACE", "IO"))
                buffers.append({
                    "buffer_id": str(len(buffers) + 1), "kind": f"BUFFER_KIND_{kind}", "offset": str(at),
                    "size": str(size), "requested": str(size - 100), "age": f"{chance.random() * 9:.3f}s",
                })  # fmt: skip
                used += size
            at += size
    pool = {
        "pool_id": str(number), "session_id": str(number), "live": True, "lease_expires_in": "21.5s",
        "segment_bytes": str(SEGMENT), "kinds": [], "segments": segments, "buffers": buffers,
    }  # fmt: skip
    return pool, used


def _runtime(chance: random.Random, pools: int) -> Map:
    sums = dict.fromkeys(STATES, 0)
    made = [_pool(chance, number) for number in range(1, pools + 1)]
    taken = sum(len(pool["segments"]) for pool, _ in made) * SEGMENT
    sums["leased"] = sum(used for _, used in made)
    sums["pooled"] = taken - sums["leased"]
    capacity = (taken * 3 // 2 // GIB + 1) * GIB
    sums["unbacked"] = capacity - taken
    ledger = _ledger("runtime", sums, 0.094)
    ledger["capacity"] = str(capacity)
    pool_list = [pool for pool, _ in made]
    return {"ledger": ledger, "regions": [], "pools": pool_list, "cached": [], "leaving_bytes": "0", "waiting": "2"}


def made_up_map(regions: int, devices: int = 2, program: str = "") -> Map:
    """Gives a map with so many regions over all devices; the same for the same arguments.

    Parameters
    ----------
    regions : int
        Over all devices together.
    devices : int
        How many there are.
    program : str
        The name of every session's program; empty for various ones.
    """
    chance = random.Random(regions)
    maps = []
    for number in range(devices):
        each = regions // devices
        arenas = [_weights(chance, 1 + number * each, each), _runtime(chance, 8)]
        total = sum(int(arena["ledger"]["capacity"]) for arena in arenas) + 4 * GIB
        maps.append({
            "name": f"gpu:{number}", "backend": "cuda", "uuid": f"GPU-6f2b1d3a-8c11-4f52-9d2e-0c8a1b7e44{number:02}",
            "total_bytes": str(total), "foreign_bytes": str(2 * GIB), "lost": "", "arenas": arenas, "counters": {},
        })  # fmt: skip
    sessions = [
        {"session_id": str(i), "program": program or PROGRAMS[i % 5], "instance": f"{i:02}", "uid": 1000, "pid": 100 + i}
        for i in range(1, 40)
    ]
    return {
        "schema": 1, "version": "0.1.0", "boot_id": "9f3c" * 8, "time": "2026-11-30T20:44:16Z", "uptime": "93784.5s",
        "devices": maps, "sessions": sessions,
    }  # fmt: skip
