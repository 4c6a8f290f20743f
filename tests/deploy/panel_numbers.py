"""What every panel is to show of the known ledger.

A panel's number comes from what the script did (known_ledger), and only where that does not fix it, such as
how long something took, from a scrape of the daemon.
"""

from __future__ import annotations

import known_ledger as known
from exposition import Scrape
from known_ledger import RUNTIME, WEIGHTS

# The series of a query by what Grafana calls them.
Numbers = dict[str, float]
OVERVIEW = "tenure-overview"
LOADS = "tenure-loads-leases"
ARENAS = {"weights": WEIGHTS, "runtime": RUNTIME}


def both(key: str) -> float:
    """A number of both arenas together."""
    return WEIGHTS[key] + RUNTIME[key]


def by_arena(key: str, suffix: str = "") -> Numbers:
    """A number of each arena."""
    return {f"here host:0 {arena}{suffix}": ledger[key] for arena, ledger in ARENAS.items()}


def states() -> Numbers:
    """Every state of the ledger."""
    names = "leased loading idle retained quarantined padding cached pooled unbacked stranded".split()
    return {state: sum(ledger.get(state, 0) for ledger in ARENAS.values()) for state in names}


def overview(scrape: Scrape, seconds: float) -> dict[tuple[str, str], Numbers]:
    """The overview by panel and reference. Rates are over so many seconds."""
    fragmentation = {
        "here host:0 weights": 0.0,
        "here host:0 runtime": 1 - scrape.sum("tenure_arena_largest_free_bytes", arena="runtime") / RUNTIME["free"],
    }
    largest_runtime = scrape.sum("tenure_arena_largest_free_bytes", arena="runtime")
    held = {
        f"here host:0 {arena} {state}": ledger.get(state, 0)
        for arena, ledger in ARENAS.items()
        for state in ("quarantined", "stranded")
    }
    refusals = {"weights CAPACITY": 1 / seconds, "runtime CAPACITY": 1 / seconds}
    ledger = ("capacity", "reserved", "allocated", "requested", "free")
    largest = {"here host:0 weights": WEIGHTS["largest_free"], "here host:0 runtime": largest_runtime}
    models = scrape.by("tenure_model_bytes", "model")
    assert len(models) == 4, models
    return {
        ("Capacity", "A"): {"": both("capacity")},
        ("Reserved", "A"): {"": both("reserved")},
        ("Allocated", "A"): {"": both("allocated")},
        ("Free", "A"): {"": both("free")},
        ("Largest that fits now", "A"): {"": WEIGHTS["largest_free"]},
        ("Fragmentation, worst", "A"): {"": fragmentation["here host:0 runtime"]},
        ("Devices lost", "A"): {"": 0},
        ("Alerts firing", "A"): {"": 0},
        ("Allocated, reserved, capacity", "A"): by_arena("allocated", " allocated"),
        ("Allocated, reserved, capacity", "B"): by_arena("reserved", " reserved"),
        ("Allocated, reserved, capacity", "C"): by_arena("capacity", " capacity"),
        ("Memory by state", "A"): states(),
        ("Fragmentation", "A"): fragmentation,
        ("Free, and the largest that fits", "A"): by_arena("free", " free"),
        ("Free, and the largest that fits", "B"): {f"{name} largest": value for name, value in largest.items()},
        ("Waste", "A"): {
            "here host:0 weights": 1 - WEIGHTS["requested"] / WEIGHTS["allocated"],
            "here host:0 runtime": 0,
        },
        ("Peaks", "A"): by_arena("reserved", " reserved"),
        ("Quarantined and stranded", "A"): held,
        ("Refusals", "A"): {"": 2},
        ("Refusals by reason", "A"): refusals,
        **{("Ledger", "ABCDE"[i]): by_arena(key) for i, key in enumerate(ledger)},
        ("Ledger", "F"): largest,
        ("Models", "A"): {**dict.fromkeys(scrape.by("tenure_models", "state"), 0.0), "ACTIVE": 3, "RETAINED": 1},
        ("Largest models", "A"): {f"host:0 {name}": size for name, size in models.items()},
        ("Used by others", "A"): {"here host:0": 0},
        ("Segments", "A"): {"weights used": 8, "weights cached": 0, "runtime used": 1, "runtime cached": 0},
        ("Segments taken and given back", "A"): {"created": known.SEGMENTS_CREATED / seconds},
        ("Segments taken and given back", "B"): {"destroyed": 0},
        ("Segments taken and given back", "C"): {
            "exported": scrape.sum("tenure_backend_exports_total") / seconds
        },
        ("Lost and cordoned devices", "A"): {"here host:0 lost": 0},
        ("Lost and cordoned devices", "B"): {"here host:0 cordoned": 0},
        ("Lost and cordoned devices", "C"): {},
        ("GPUs", "A"): {},
        ("Daemons", "A"): {"": 1},
    }


def loads_and_leases(scrape: Scrape, seconds: float) -> dict[tuple[str, str], Numbers]:
    """The other dashboard, likewise."""
    loads = sum(known.LOADS.values())
    durations = "tenure_load_duration_seconds"
    phases = scrape.by("tenure_load_phase_duration_seconds_count", "phase")
    phase_sums = scrape.by("tenure_load_phase_duration_seconds_sum", "phase")
    sources = scrape.by("tenure_copied_bytes_total", "source")
    assert sum(sources.values()) == known.COPIED, sources
    heat = scrape.by(f"{durations}_bucket", "le")
    failed_calls = {
        f"{each.labels['method']} {each.labels['code']}": each.value / seconds
        for each in scrape.series("tenure_rpcs_total")
        if each.labels["code"] != "OK" and each.value > 0
    }
    return {
        ("Loads", "A"): {"": loads},
        ("Failed loads", "A"): {"": sum(known.FAILURES.values())},
        ("Memory reused", "A"): {"": 1 - known.LOADS["FRESH"] / loads},
        ("Connected sessions", "A"): {"": 2},
        ("Loads waiting", "A"): {"": 0},
        ("Loads by reuse", "A"): {reuse: count / seconds for reuse, count in known.LOADS.items()},
        ("Failed loads by reason", "A"): {reason: count / seconds for reason, count in known.FAILURES.items()},
        ("Load duration", "A"): {"p50": scrape.quantile(0.5, durations)},
        ("Load duration", "B"): {"p90": scrape.quantile(0.9, durations)},
        ("Load duration", "C"): {"p99": scrape.quantile(0.99, durations)},
        ("Load time by phase", "A"): {
            phase: phase_sums[phase] / count for phase, count in phases.items() if count > 0
        },
        ("Load durations", "A"): heat,
        ("Bytes copied", "A"): {source: value / seconds for source, value in sources.items()},
        ("Ownership transfers and reclaims", "A"): {"transferred": known.LOADS["ADOPTED"] / seconds},
        ("Ownership transfers and reclaims", "B"): {
            f"reclaimed: {cause}": 0 for cause in scrape.by("tenure_reclaims_total", "cause")
        },
        ("At work and waiting", "A"): {"loads at work": 0},
        ("At work and waiting", "B"): {"loads waiting": 0},
        ("At work and waiting", "C"): {"buffers waiting": 0},
        ("Live leases", "A"): {"": 3},
        ("Live leases by device", "A"): {"here host:0": 3},
        ("Lease events", "A"): {"granted": 5 / seconds},
        ("Lease events", "B"): {"released": 1 / seconds},
        ("Lease events", "C"): {"expired": 1 / seconds},
        ("Lease events", "D"): {"lost": 0},
        ("Recalls", "A"): {"weights": 0},
        ("Recalls", "B"): {"weights, unanswered": 0},
        ("Recalls", "C"): {"pools": 0},
        ("Recalls", "D"): {"pools, unanswered": 0},
        ("Sessions", "A"): {"LIVE": 2, "DEAF": 0, "GONE": 0},
        ("Clients lost", "A"): {"lost": 1 / seconds},
        ("Pools and buffers", "A"): {"pools": 1},
        ("Pools and buffers", "B"): {"buffers": 2},
        ("Buffer events", "A"): {"granted": 3 / seconds},
        ("Buffer events", "B"): {"released": 1 / seconds},
        ("Buffer events", "C"): {"segments granted": 0},
        ("Buffer events", "D"): {"pools expired": 0},
        ("Buffer events", "E"): {"pools lost": 0},
        ("Wait for buffers", "A"): {"p50": scrape.quantile(0.5, "tenure_buffer_wait_duration_seconds")},
        ("Wait for buffers", "B"): {"p99": scrape.quantile(0.99, "tenure_buffer_wait_duration_seconds")},
        ("Calls by method", "A"): {
            method: count / seconds for method, count in scrape.by("tenure_rpcs_total", "method").items()
        },
        ("Calls that failed", "A"): failed_calls,
        ("Call duration, p99", "A"): {
            method: scrape.quantile(0.99, "tenure_rpc_duration_seconds", method=method)
            for method, count in scrape.by("tenure_rpc_duration_seconds_count", "method").items()
            if count > 0
        },
        ("Running since", "A"): {"here": scrape.sum("process_start_time_seconds") * 1000},
        ("Last reload of the configuration", "A"): {
            "here": scrape.sum("tenure_config_last_reload_successful")
        },
        ("Reloads", "A"): dict.fromkeys(scrape.by("tenure_config_reloads_total", "result"), 0.0),
    }


# What the process uses changes from one moment to the next, and how much of a segment counts while a pool grows
# by it is over in a moment: there these bounds must hold.
BOUNDS: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("CPU", "A"): {"here": (1e-6, 4)},
    ("Resident memory", "A"): {"here": (WEIGHTS["reserved"], 1 << 30)},
    ("File descriptors and threads", "A"): {"here open": (10, 1000)},
    ("File descriptors and threads", "B"): {"here limit": (256, 1 << 40)},
    ("File descriptors and threads", "C"): {"here threads": (4, 1000)},
    ("Reloads", "B"): {},
    ("Peaks", "B"): {
        # A model more than at the end; a buffer more, or the whole segment that it came from.
        "here host:0 weights allocated": (WEIGHTS["allocated"] + known.WHOLE,) * 2,
        "here host:0 runtime allocated": (RUNTIME["allocated"] + known.BUFFER, 2 * RUNTIME["reserved"]),
    },
}
