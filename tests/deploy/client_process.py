"""A client in a process of its own, which can be stopped and killed.

As a program it carries out one command a line, and answers each with a line:

    lease MODEL SECONDS    acquires a lease that outlives the last heartbeat by so long
    keep                   maps the first segment of that lease a second time, which the library knows nothing of
    release                releases the lease and ends the session, but not what `keep` has mapped
    forget                 unmaps that
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

MIB = 1 << 20
MREMAP_MAYMOVE = 1


class ClientProcess:
    """Runs as long as the `with` block."""

    def __init__(self, directory: Path, program: str) -> None:
        command = [sys.executable, __file__, str(directory), program]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert self._answer() == "connected"

    def ask(self, command: str) -> None:
        """Has a command carried out."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        answer = self._answer()
        assert answer == "done", answer

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def pause(self) -> None:
        """Makes it stand still."""
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """Ends it without notice."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> ClientProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()


def map_again(libc: ctypes.CDLL, address: int) -> int:
    """Maps the 2 MiB there a second time: an old size of 0 leaves the mapping of shared memory where it is."""
    libc.mremap.restype = ctypes.c_void_p
    libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    copy = libc.mremap(address, 0, 2 * MIB, MREMAP_MAYMOVE)
    assert copy is not None and copy != ctypes.c_void_p(-1).value, "mremap failed"
    return int(copy)


def main() -> None:
    """Serves commands until there are no more."""
    import tenure

    directory, program = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    client = tenure.connect(directory, program=program)
    print("connected", flush=True)
    kept = 0
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "lease":
            lease = client.acquire(arguments[0], ttl=float(arguments[1]))
        elif command == "keep":
            first = lease[lease.keys()[0]]
            kept = map_again(libc, first.ctypes.data)
            del first
        elif command == "release":
            lease.release()
            client.close()
        elif command == "forget":
            libc.munmap(ctypes.c_void_p(kept), ctypes.c_size_t(2 * MIB))
        print("done", flush=True)


if __name__ == "__main__":
    main()
