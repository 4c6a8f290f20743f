"""A `tenured` of a test's own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import tenure

BINARY = Path(os.environ.get("TENURE_BIN_DIR", "build/release/bin")) / "tenured"
PATIENCE = 20.0

CONFIG = """\
directory: {directory}
log: {{level: debug}}
metrics: {{address: ""}}
model_roots:
  - {{name: models, path: {models}}}
devices:
  - {{name: "host:0", total: {capacity}, weights: 100%}}
weights: {{segment_size: 2MiB}}
"""

POOL_CONFIG = """\
directory: {directory}
log: {{level: debug}}
metrics: {{address: ""}}
devices:
  - {{name: "host:0", total: {total}MiB, weights: 8MiB, runtime: {runtime}MiB}}
weights: {{segment_size: 2MiB}}
runtime: {{segment_size: 2MiB, pool_ttl: {pool_ttl}}}
leases: {{ttl: {lease_ttl}, heartbeat_interval: 100ms}}
"""


class Daemon:
    """Runs as long as the `with` block. Its directory, log and one model root lie in `folder`.

    With `runtime` it has so many MiB of runtime memory, and hardly any weights.
    """

    def __init__(
        self,
        folder: Path,
        capacity: str = "64MiB",
        *,
        runtime: int = 0,
        pool_ttl: str = "never",
        lease_ttl: str = "30s",
    ) -> None:
        self.directory = folder / "run"
        self.models = folder / "models"
        self.directory.mkdir()
        self.models.mkdir()
        self._log = folder / "tenured.log"
        self._config = folder / "tenured.yaml"
        if runtime > 0:
            config = POOL_CONFIG.format(
                directory=self.directory,
                total=runtime + 8,
                runtime=runtime,
                pool_ttl=pool_ttl,
                lease_ttl=lease_ttl,
            )
        else:
            config = CONFIG.format(directory=self.directory, models=self.models, capacity=capacity)
        self._config.write_text(config)

    def __enter__(self) -> Daemon:
        arguments = [str(BINARY), "--config", str(self._config), "--directory", str(self.directory)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(arguments, stdout=log, stderr=log)
        try:
            eventually(lambda: self._process.poll() is not None or self._listens())
            assert self._process.poll() is None, "tenured did not start"
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        # Pytest shows it if the test has failed.
        print(self._log.read_text())

    def connect(self, **options: str) -> tenure.Client:
        """Connects a client."""
        return tenure.connect(self.directory, timeout=PATIENCE, **options)

    def kill(self) -> None:
        """Ends the daemon without notice."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Makes the daemon stand still."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Makes it go on."""
        self._process.send_signal(signal.SIGCONT)

    def _listens(self) -> bool:
        sockets = (("handle.sock", socket.SOCK_SEQPACKET), ("grpc.sock", socket.SOCK_STREAM))
        for name, kind in sockets:
            with socket.socket(socket.AF_UNIX, kind) as probe:
                if probe.connect_ex(str(self.directory / name)) != 0:
                    return False
        return True


def eventually(condition: Callable[[], object]) -> None:
    """Waits until a condition holds."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, "it never came to be"
        time.sleep(0.01)
