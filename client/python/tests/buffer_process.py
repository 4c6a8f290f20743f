"""A client in a process of its own, which can be killed and stopped.

As a program it takes one command a line and answers each with a line.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import tenure
from runtime_memory import MIB


class BufferProcess:
    """Runs as long as the `with` block.

    Parameters
    ----------
    directory : Path
        The daemon's.
    """

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, __file__, str(directory)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, command: str) -> str:
        """Has a command carried out, and gives the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """Ends it without notice."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Makes it stand still."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Makes it go on."""
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> BufferProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()


def main() -> None:
    """Carries commands out: `acquire MIB`, `sum`, `sum-array`, `release`."""
    pool = tenure.connect(sys.argv[1]).open_pool()
    for line in sys.stdin:
        command, *arguments = line.split()
        answer = "done"
        try:
            if command == "acquire":
                buffer = pool.acquire(int(arguments[0]) * MIB)
                array = buffer.array
                array.fill(1)
            elif command == "sum":
                answer = str(buffer.array.sum())
            elif command == "sum-array":
                answer = str(array.sum())
            elif command == "release":
                array = None
                buffer.release()
        except tenure.TenureError as refused:
            answer = refused.reason
        print(answer, flush=True)


if __name__ == "__main__":
    main()
