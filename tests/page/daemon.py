"""A `tenured` with some models, for the page to show."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType

BINARIES = Path(os.environ["TENURE_BIN_DIR"])
PATIENCE = 30.0

CONFIG = """\
directory: {folder}/run
metrics: {{address: "127.0.0.1:0"}}
model_roots: [{{name: models, path: {folder}/models}}]
devices:
  - {{name: "host:0", backend: host, total: 256MiB, weights: 75%, runtime: 25%}}
weights: {{segment_size: 4MiB}}
runtime: {{segment_size: 2MiB}}
"""


class Daemon:
    """Runs as long as the `with` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "run").mkdir()
        (folder / "models").mkdir()
        (folder / "config.yaml").write_text(CONFIG.format(folder=folder))
        self._log = (folder / "log").open("w")
        self._process = subprocess.Popen(
            [BINARIES / "tenured", "--config", folder / "config.yaml"], stderr=self._log
        )
        self.origin = "http://" + self._address()

    def _address(self) -> str:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self._process.poll() is None:
            for line in (self.folder / "log").read_text().splitlines():
                if " started " in line:
                    return line.split("metrics_address=")[1].split()[0]
            time.sleep(0.02)
        raise RuntimeError((self.folder / "log").read_text())

    def ctl(self, *arguments: str) -> str:
        """Runs tenurectl and gives what it prints."""
        command = [BINARIES / "tenurectl", "--directory", self.folder / "run", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def load(self, name: str, size: str, seed: int = 1) -> None:
        """Brings a model of a file of its own online."""
        file = name.replace("/", "-")
        subprocess.run(
            [BINARIES / "make-models", "--out", self.folder / "models", "--name", file,
             "--arch", "rec-mlp", "--bytes", size, "--seed", str(seed)],
            check=True, capture_output=True,
        )  # fmt: skip
        self.ctl("load", name, f"models/{file}.safetensors")

    def map(self) -> dict[str, object]:
        """What /map.json says."""
        with urllib.request.urlopen(self.origin + "/map.json", timeout=PATIENCE) as reply:
            return json.load(reply)

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Daemon:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._log.close()
