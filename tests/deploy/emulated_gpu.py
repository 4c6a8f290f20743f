"""A machine with a GPU that does not exist, and that a test can break."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType

from processes import BIN


class EmulatedGpu:
    """Is there as long as the `with` block.

    Attributes
    ----------
    environment : dict
        What a process needs to find it.
    """

    PROGRAM = next(iter(BIN.glob("emulated-gpu")), None)

    def __init__(self, folder: Path) -> None:
        assert self.PROGRAM is not None
        self._process = subprocess.Popen(
            [self.PROGRAM, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert self._process.stdout is not None
        self.environment = dict(line.strip().split("=", 1) for line in iter(self._process.stdout.readline, "\n"))

    def lose(self) -> None:
        """Makes its driver report it broken."""
        self._tell("lose")

    def restore(self) -> None:
        """Makes it whole for whoever asks anew."""
        self._tell("restore")

    def _tell(self, command: str) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        assert self._process.stdout.readline() == "done\n"

    def __enter__(self) -> EmulatedGpu:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
