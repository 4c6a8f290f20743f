"""The systemd unit, as far as systemd's own tools can tell without starting it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from processes import BIN, ROOT

FOLDER = ROOT / "deploy" / "systemd"
UNIT = FOLDER / "tenured.service"
# Of 10, where 0 is a service that can do nothing.
MOST_EXPOSURE = 3.0
# What NVIDIA's driver and the proof of a client's death need, so that nobody hardens it away.
LEFT_ALONE = ("PrivateDevices", "DevicePolicy", "MemoryDenyWriteExecute", "ProtectProc", "PrivateUsers", "PrivateNetwork")

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


def settings() -> dict[str, str]:
    """Every key of the unit; the last value of each."""
    lines = [line for line in UNIT.read_text().splitlines() if line and line[0] not in "#["]
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with the programs where they are here."""
    text = UNIT.read_text().replace("/usr/bin/tenure", str(BIN / "tenure"))
    path = tmp_path / UNIT.name
    path.write_text(text.replace("file:/usr/share/doc/tenure/README.md", f"file:{ROOT / 'README.md'}"))
    return path


@needs_systemd
def test_systemd_understands_it(unit: Path) -> None:
    """Without a warning of ours."""
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if "tenured" in line]
    assert ours == [] and done.returncode == 0, done.stderr


@needs_systemd
def test_it_is_exposed_to_little(unit: Path) -> None:
    """As `systemd-analyze security` counts it."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--json=short", f"--threshold={MOST_EXPOSURE * 10:.0f}", unit],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(json.loads(done.stdout)) > 50


def test_it_takes_nothing_away_that_the_daemon_needs() -> None:
    """The devices, and the view of its clients' processes; it may lock memory and open files."""
    found = settings()
    assert [key for key in LEFT_ALONE if key in found] == []
    assert found["LimitMEMLOCK"] == "infinity" and int(found["LimitNOFILE"]) >= 1 << 20
    assert set(found["RestrictAddressFamilies"].split()) >= {"AF_UNIX", "AF_INET", "AF_INET6"}


def test_the_watchdog_and_the_reload_are_the_daemons() -> None:
    """Type=notify-reload is of systemd 253; Debian 12 has 252."""
    found = settings()
    assert found["Type"] == "notify"
    # Which waits, and fails if the configuration is refused; a signal does neither.
    assert found["ExecReload"] == "/usr/bin/tenurectl --directory /run/tenure reload"
    assert found["WatchdogSec"] == "30s"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_it_has_time_to_drain(path: Path) -> None:
    """Longer than drain_timeout and driver_timeout of each configuration together."""
    config = {"drain_timeout": "30s", "driver_timeout": "60s", **yaml.safe_load(path.read_text())}
    needed = sum(int(config[key].removesuffix("s")) for key in ("drain_timeout", "driver_timeout"))
    assert int(settings()["TimeoutStopSec"].removesuffix("s")) > needed


def test_the_sockets_directory_outlives_the_daemon() -> None:
    """Containers have it mounted, and pinned.yaml in it says what the next daemon brings back."""
    found = settings()
    assert found["RuntimeDirectory"] == "tenure" and found["RuntimeDirectoryPreserve"] == "yes"


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="needs systemd-sysusers")
def test_the_user_is_made(tmp_path: Path) -> None:
    """In a root of its own."""
    (tmp_path / "etc").mkdir()
    done = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", FOLDER / "tenure.sysusers"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    user = next(line for line in (tmp_path / "etc" / "passwd").read_text().splitlines() if line.startswith("tenure:"))
    assert user.split(":")[2:4] == ["64400", "64400"] and user.endswith("/run/tenure:/usr/sbin/nologin")
    assert settings()["User"] == settings()["Group"] == "tenure"


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
