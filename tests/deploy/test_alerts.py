"""Every alert, driven to firing by what it is there for, and resolved by taking that away.

A real Prometheus evaluates the real rules, sixty times as fast (scaled_rules), against live daemons.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import checkpoints
import metric_names
import pytest
import scaled_rules
from checkpoints import MIB
from client_library import tenure
from client_process import ClientProcess
from emulated_gpu import EmulatedGpu
from processes import ROOT, Daemon, Prometheus, eventually

CONFIG = """\
directory: {directory}
metrics: {{address: "127.0.0.1:0"}}
model_roots: [{{name: models, path: {models}}}]
devices:
  - {{name: "host:0", total: 96MiB, weights: 64MiB, runtime: 32MiB}}
  - {{name: "host:1", total: 1GiB, weights: 768MiB, runtime: 64MiB}}
weights: {{segment_size: 2MiB, cache_ttl: 0}}
runtime: {{segment_size: 8MiB, pool_ttl: never}}
"""

GPU_CONFIG = """\
directory: {directory}
metrics: {{address: "127.0.0.1:0"}}
model_roots: [{{name: models, path: {models}}}]
devices: [{{name: "gpu:0", backend: cuda, weights: 64MiB, runtime: 32MiB}}]
"""


class World:
    """A daemon, and a Prometheus that scrapes it and evaluates the alerts."""

    def __init__(self, daemon: Daemon, prometheus: Prometheus) -> None:
        self.daemon = daemon
        self.prometheus = prometheus
        self.address = daemon.metrics_address

    def fires(self, alert: str, **labels: str) -> dict[str, Any]:
        """Waits until an alert fires with these labels; checks what it tells, and gives it."""
        found = eventually(f"{alert}{labels} fires", lambda: self.firing(alert, **labels))
        for text in found["annotations"].values():
            assert text and "no value" not in text and "error" not in text and "{{" not in text, text
        return found

    def firing(self, alert: str, **labels: str) -> dict[str, Any] | None:
        """The alert, if it fires now."""
        for each in self.prometheus.firing().get(alert, []):
            if labels.items() <= each["labels"].items():
                return each
        return None

    def resolves(self, *alerts: str) -> None:
        """Waits until alerts do not fire any more."""
        for alert in alerts:
            eventually(f"{alert} resolves", lambda alert=alert: alert not in self.prometheus.firing())

    def load(self, name: str, device: str, *more: str) -> None:
        """Loads a model of the models' folder."""
        self.daemon.ctl("load", name, f"models/{name}.safetensors", "--device", device, *more)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for all tests of this file but the one that needs a GPU."""
    with started(tmp_path_factory.mktemp("alerts"), CONFIG) as found:
        yield found


class started(ExitStack):
    """Starts a daemon and a Prometheus beside it."""

    def __init__(self, folder: Path, config: str, environment: dict[str, str] | None = None) -> None:
        super().__init__()
        self._arguments = (folder, config, environment)

    def __enter__(self) -> World:  # type: ignore[override]
        folder, config, environment = self._arguments
        super().__enter__()
        daemon = self.enter_context(Daemon(folder, config, environment))
        rules = scaled_rules.write(folder)
        return World(
            daemon,
            self.enter_context(Prometheus(folder / "prometheus", daemon.metrics_address, rules=rules)),
        )


def test_memory_that_nobody_gives_back(world: World) -> None:
    """Quarantine, stranded bytes, fragmentation and a full arena at once, each by its cause."""
    models = world.daemon.models
    checkpoints.write(models / "silent.safetensors", 4, MIB)
    checkpoints.write(models / "pinned.safetensors", 2, 2 * MIB)
    checkpoints.write(models / "filler.safetensors", 28, 2 * MIB)
    with (
        tenure.connect(world.daemon.directory, program="ranker") as client,
        ClientProcess(world.daemon.directory, "silent") as silent,
        ClientProcess(world.daemon.directory, "keeper") as keeper,
    ):
        world.load("silent", "host:0")
        silent.ask("lease silent 1")
        silent.pause()

        world.load("pinned", "host:0", "--retain-ttl", "0")
        keeper.ask("lease pinned 30")
        keeper.ask("keep")
        keeper.ask("release")
        world.daemon.ctl("unload", "pinned")
        eventually("bytes are stranded", lambda: world.daemon.ledger("weights")["stranded"] == 2 * MIB)

        world.load("filler", "host:0")
        pool = client.open_pool("host:1")
        buffers = [pool.acquire(2 * MIB) for _ in range(32)]
        for buffer in buffers[::2]:
            buffer.release()

        world.fires("TenureArenaFillingUp", device="host:0", arena="weights")
        told = world.fires("TenureQuarantineGrowing", device="host:0", arena="weights", state="quarantined")
        assert told["annotations"]["summary"].endswith("keep 4MiB in quarantine"), told
        told = world.fires("TenureStrandedGrowing", device="host:0", arena="weights", state="stranded")
        assert told["annotations"]["summary"].startswith("2MiB of "), told
        world.fires("TenureFragmentation", device="host:1", arena="runtime")

        silent.kill()
        keeper.ask("forget")
        world.daemon.ctl("unload", "filler")
        pool.close()
        del buffers
        world.resolves(
            "TenureArenaFillingUp", "TenureQuarantineGrowing", "TenureStrandedGrowing", "TenureFragmentation"
        )


def test_a_daemon_that_stands_still_in_the_middle_of_a_load(world: World) -> None:
    """It is down meanwhile, and the load was slow."""
    checkpoints.write(world.daemon.models / "large.safetensors", 128, 4 * MIB)
    with tenure.connect(world.daemon.directory, program="watcher") as client:

        def loading() -> bool:
            return any(each.name == "large" and each.state == "loading" for each in client.models())

        def caught() -> bool:
            load = threading.Thread(target=world.load, args=("large", "host:1", "--retain-ttl", "0"))
            load.start()
            eventually("it is being loaded, or is already", lambda: loading() or not load.is_alive())
            world.daemon.pause()
            was_alive = load.is_alive()
            if was_alive:
                world.fires("TenureDown", instance="here")
            world.daemon.resume()
            load.join()
            world.daemon.ctl("unload", "large")
            return was_alive

        eventually("the daemon stood still during a load", caught)
    world.resolves("TenureDown")
    world.fires("TenureLoadsSlow", device="host:1")
    world.resolves("TenureLoadsSlow")


def test_loads_that_fail(world: World) -> None:
    """One file that is no checkpoint is enough if it is asked for again and again."""
    (world.daemon.models / "broken.safetensors").write_bytes(b"not a checkpoint at all")

    def failed() -> Any:
        world.daemon.ctl("load", "broken", "models/broken.safetensors", succeeds=False)
        return world.firing("TenureLoadsFailing")

    eventually("failed loads are told", failed)
    world.fires("TenureLoadsFailing")
    world.resolves("TenureLoadsFailing")


def test_requests_that_are_refused(world: World) -> None:
    """In each arena, by reason."""
    checkpoints.write(world.daemon.models / "huge.safetensors", 1, 800 * MIB)
    world.daemon.ctl("load", "huge", "models/huge.safetensors", "--device", "host:1", succeeds=False)
    with tenure.connect(world.daemon.directory, program="ranker") as client, client.open_pool("host:0") as pool:
        with pytest.raises(tenure.TenureError, match="CAPACITY|room"):
            pool.acquire(33 * MIB)
    world.fires("TenureRefusals", device="host:1", arena="weights", reason="CAPACITY")
    world.resolves("TenureRefusals")


def test_a_configuration_that_is_refused(world: World) -> None:
    """By a reload, until one succeeds."""
    accepted = world.daemon.config.read_text()
    world.daemon.config.write_text(accepted + "no_such_key: 1\n")
    world.daemon.process.send_signal(signal.SIGHUP)
    world.fires("TenureReloadFailed")
    world.daemon.config.write_text(accepted)
    world.daemon.process.send_signal(signal.SIGHUP)
    world.resolves("TenureReloadFailed")


def test_no_daemon_at_all(world: World) -> None:
    """Prometheus has no target left."""
    world.prometheus.scrape_only([])
    world.fires("TenureAbsent")
    world.prometheus.scrape_only([world.address])
    world.resolves("TenureAbsent")


def test_a_device_that_is_lost(tmp_path: Path) -> None:
    """Its driver reports it broken; a daemon that is started again finds it whole."""
    if EmulatedGpu.PROGRAM is None:
        pytest.skip("built without the CUDA backend")
    with ExitStack() as stack:
        gpu = stack.enter_context(EmulatedGpu(tmp_path / "gpu"))
        world = stack.enter_context(started(tmp_path, GPU_CONFIG, gpu.environment))
        checkpoints.write(world.daemon.models / "model.safetensors", 4, MIB)
        gpu.lose()
        world.daemon.ctl("load", "model", "models/model.safetensors", succeeds=False)
        world.fires("TenureDeviceLost", device="gpu:0")
        gpu.restore()
        world.daemon.process.terminate()
        world.daemon.process.wait()
        again = stack.enter_context(Daemon(tmp_path, GPU_CONFIG, gpu.environment))
        world.prometheus.scrape_only([again.metrics_address])
        world.resolves("TenureDeviceLost")


def test_every_alert_is_driven_here() -> None:
    """And has a section of its own in the runbook."""
    alerts = {rule["alert"]: rule for rule in metric_names.rules() if "alert" in rule}
    source = Path(__file__).read_text()
    assert [name for name in alerts if f'fires("{name}"' not in source] == []
    runbook = (ROOT / "deploy" / "RUNBOOK.md").read_text()
    for name, rule in alerts.items():
        assert rule["labels"].keys() == {"severity"}, name
        assert rule["labels"]["severity"] in ("warning", "critical"), name
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}, name
        assert rule["annotations"]["runbook_url"] == f"deploy/RUNBOOK.md#{name.lower()}", name
        section = runbook.split(f"\n## {name}\n", 1)
        assert len(section) == 2, f"{name} has no section in the runbook"
        for part in ("**Cause.**", "**Look.**", "**Expect.**", "**Do.**"):
            assert part in section[1].split("\n## ", 1)[0], f"{name}: {part}"


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
