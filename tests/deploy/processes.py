"""The real programs that the tests here run: a daemon, and a Prometheus that scrapes it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("TENURE_BIN_DIR", ROOT / "build" / "release" / "bin"))
PATIENCE = 90.0
SCRAPE_INTERVAL = "500ms"


def eventually(what: str, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Waits until a condition answers something true, and gives that."""
    give_up = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < give_up, f"it never came to be: {what}"
        time.sleep(0.05)


class Running:
    """A program that runs as long as its `with` block; its output goes to a log, which a failed test shows."""

    def __init__(self, arguments: list[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._arguments = arguments
        self._log_file = log
        self._environment = {**os.environ, **(environment or {})}

    def __enter__(self) -> Any:
        with self._log_file.open("ab") as log:
            self.process = subprocess.Popen(self._arguments, stdout=log, stderr=log, env=self._environment)
        try:
            eventually(f"{self._arguments[0]} serves", lambda: self.process.poll() is not None or self.serves())
            assert self.process.poll() is None, f"{self._arguments[0]} did not start:\n{self.log()}"
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        print(self.log())

    def serves(self) -> bool:
        """Whether it does its work by now."""
        raise NotImplementedError

    def log(self) -> str:
        """What it has printed."""
        return self._log_file.read_text()

    def pause(self) -> None:
        """Makes it stand still."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Makes it go on."""
        self.process.send_signal(signal.SIGCONT)


class Daemon(Running):
    """A `tenured` with a configuration of the test's own, in a folder of the test's own."""

    def __init__(self, folder: Path, config: str, environment: Mapping[str, str] | None = None) -> None:
        self.directory = folder / "run"
        self.models = folder / "models"
        for each in (self.directory, self.models):
            each.mkdir(exist_ok=True)
        self.config = folder / "tenured.yaml"
        self.config.write_text(config.format(directory=self.directory, models=self.models))
        arguments = [str(BIN / "tenured"), "--config", str(self.config)]
        super().__init__(arguments, folder / "tenured.log", environment)

    def serves(self) -> bool:
        """Whether it says that it has started."""
        return "started version=" in self.log()

    @property
    def metrics_address(self) -> str:
        """Where /metrics is: of a daemon that was started again, where it is now."""
        return re.findall(r"metrics_address=(\S+)", self.log())[-1]

    def ctl(self, *arguments: str, succeeds: bool = True) -> Any:
        """What `tenurectl --json` answers; the error, if it is to fail."""
        command = [str(BIN / "tenurectl"), "--directory", str(self.directory), "--json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode == 0) == succeeds, f"{command}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout if succeeds else done.stderr)

    def ledger(self, arena: str) -> dict[str, Any]:
        """The ledger of an arena of its first device."""
        return {each["arena"]: each for each in self.ctl("arenas")["devices"][0]["arenas"]}[arena]


class Prometheus(Running):
    """A Prometheus that scrapes and evaluates every half second.

    Parameters
    ----------
    folder : Path
        Its own.
    target : str
        What to scrape.
    labels : Mapping
        Labels that every series gets.
    rules : list of Path
        Rule files.
    """

    def __init__(
        self, folder: Path, target: str, labels: Mapping[str, str] | None = None, rules: list[Path] | None = None
    ) -> None:
        folder.mkdir()
        self._folder = folder
        self._rules = rules or []
        self._labels = {"instance": "here", **(labels or {})}
        self._config = folder / "prometheus.yml"
        self._write([target])
        arguments = [
            "prometheus",
            f"--config.file={self._config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            "--web.listen-address=127.0.0.1:0",
            "--query.lookback-delta=10s",
        ]
        super().__init__(arguments, folder / "prometheus.log")

    def _write(self, targets: list[str]) -> None:
        groups = [{"targets": targets, "labels": self._labels}]
        config = {
            "global": {
                "scrape_interval": SCRAPE_INTERVAL,
                "scrape_timeout": SCRAPE_INTERVAL,
                "evaluation_interval": SCRAPE_INTERVAL,
            },
            "rule_files": [str(each) for each in self._rules],
            "scrape_configs": [{"job_name": "tenure", "static_configs": groups}],
        }
        self._config.write_text(json.dumps(config))

    def scrape_only(self, targets: list[str]) -> None:
        """Changes what is scraped; takes effect soon."""
        self._write(targets)
        self.process.send_signal(signal.SIGHUP)

    def serves(self) -> bool:
        """Whether it has scraped its target."""
        try:
            return bool(self.query("up == 1"))
        except OSError:
            return False

    def _ask(self, path: str, **parameters: str) -> Any:
        # The log tells which port the system chose.
        address = re.search(r'msg="Listening on" address=(\S+)', self.log())
        if address is None:
            raise ConnectionError("not listening yet")
        url = f"http://{address.group(1)}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                raise ConnectionError("not ready yet") from error
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The labels and the value of each series that a query answers now."""
        data = self._ask("query", query=expression)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]

    def firing(self) -> dict[str, list[dict[str, Any]]]:
        """The alerts that fire now, by name, with their labels and annotations."""
        alerts: dict[str, list[dict[str, Any]]] = {}
        for each in self._ask("alerts")["alerts"]:
            if each["state"] == "firing":
                alerts.setdefault(each["labels"]["alertname"], []).append(each)
        return alerts
