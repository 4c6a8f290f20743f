"""A bad night, as an operator lives through it: an arena fills, loads are refused, the alert fires, `explain`
names the holder and the remedy, the remedy is applied, and the alert resolves.

A real daemon and a real Prometheus, which evaluates the real rules sixty times as fast.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "deploy"))

import checkpoints
import scaled_rules
from checkpoints import MIB
from client_library import tenure
from processes import BIN, Daemon, Prometheus, eventually

CONFIG = """\
directory: {directory}
metrics: {{address: "127.0.0.1:0"}}
model_roots: [{{name: models, path: {models}}}]
devices: [{{name: "host:0", total: 80MiB, weights: 64MiB, runtime: 8MiB}}]
weights: {{segment_size: 2MiB}}
"""
SKIPPED = 77


def told(daemon: Daemon, *arguments: str) -> str:
    """What tenurectl prints for people."""
    command = [str(BIN / "tenurectl"), "--directory", str(daemon.directory), *arguments]
    print("$ tenurectl", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    print(done.stdout + done.stderr)
    return done.stdout + done.stderr


def load(daemon: Daemon, model: str) -> str:
    """Loads a model, or tells why not."""
    return told(daemon, "load", model, f"models/{model}.safetensors")


def night(daemon: Daemon, prometheus: Prometheus) -> None:
    """Lives through it."""
    for model, mib in (("ranker", 30), ("search", 30), ("captions", 20)):
        checkpoints.write(daemon.models / f"{model}.safetensors", mib, MIB)

    with tenure.connect(daemon.directory, program="ranker", instance="7") as client:
        print("# The arena fills: one model is leased, one is online and nobody uses it.")
        load(daemon, "ranker")
        load(daemon, "search")
        with client.acquire("ranker"):
            print("# A third finds no room, and whoever wants it tries again.")
            assert "reason: HELD_BY_LEASES" in load(daemon, "captions")
            alert = eventually("the alert fires", lambda: refusals(daemon, prometheus))
            print("# The alert:", alert["annotations"]["summary"], "\n")

            explained = told(daemon, "explain")
            assert "ranker/7 on ranker@1" in explained, "it names the holder"
            assert "> HELD_BY_LEASES" in explained, "it names the cause"
            assert "unloading would help: search@1 (30 MiB)" in explained, "it names the remedy"
            record = eventually("a record is written", lambda: list((daemon.directory / "flight").glob("*.json")))
            assert "search@1" in told(daemon, "map", "--from", str(record[0]))

            print("# The remedy.")
            assert "retained" in told(daemon, "unload", "search")
            assert "captions@1 on host:0" in load(daemon, "captions")
            eventually("the alert resolves", lambda: "TenureRefusals" not in prometheus.firing())
            print("# The alert has resolved.")


def refusals(daemon: Daemon, prometheus: Prometheus) -> dict[str, dict[str, str]] | None:
    """Has a load refused once more; the alert about it, once it fires."""
    daemon.ctl("load", "captions", "models/captions.safetensors", succeeds=False)
    for alert in prometheus.firing().get("TenureRefusals", []):
        if alert["labels"]["arena"] == "weights":
            return alert
    return None


def main() -> int:
    """Runs it in a folder of its own; 77 where there is no Prometheus."""
    if shutil.which("prometheus") is None:
        print("SKIP: there is no prometheus here")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Daemon(folder, CONFIG) as daemon:
            rules = scaled_rules.write(folder)
            with Prometheus(folder / "prometheus", daemon.metrics_address, rules=rules) as prometheus:
                night(daemon, prometheus)
    return 0


if __name__ == "__main__":
    sys.exit(main())
