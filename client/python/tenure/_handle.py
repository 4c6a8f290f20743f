"""The handle socket: packets and descriptors, and the greeting."""

from __future__ import annotations

import array
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from tenure import errors
from tenure._deadline import Deadline
from tenure.errors import TenureError, protocol_error
from tenure.v1 import handle_pb2

PROTOCOL_VERSION = 1

_MOST_BYTES = 64 << 10
# The most that the kernel passes in one message.
_MOST_FDS = 253
_FD_SIZE = array.array("i").itemsize


@dataclass
class Received:
    """A packet and the descriptors that came with it."""

    packet: handle_pb2.DaemonPacket
    fds: list[int] = field(default_factory=list)
    fds_lost: bool = False
    """This process had no room for all of them."""

    def close_fds(self) -> None:
        """Closes what is left of the descriptors."""
        while self.fds:
            os.close(self.fds.pop())


class HandleSocket:
    """A connection to `handle.sock` that never blocks. Thread-compatible.

    Parameters
    ----------
    path : str
        Of the socket.
    deadline : Deadline
        For connecting.
    """

    def __init__(self, path: str, deadline: Deadline) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            # A full backlog blocks connecting for as long as the timeout.
            self._socket.settimeout(max(deadline.left(), 0.001))
            self._socket.connect(path)
            self._socket.setblocking(False)
        except OSError as failure:
            self._socket.close()
            raise unreachable(path, str(failure)) from None

    def fileno(self) -> int:
        """Gives the descriptor to poll."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hangs up."""
        self._socket.close()

    def send(self, packet: bytes) -> bool:
        """Sends a packet; False if the daemon takes none now."""
        try:
            self._socket.send(packet, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        except OSError as failure:
            raise _gone(f"it takes no packets any more: {failure}") from None
        return True

    def receive(self) -> Received | None:
        """Receives a packet; None if there is none now."""
        control = socket.CMSG_SPACE(_MOST_FDS * _FD_SIZE)
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(
                _MOST_BYTES, control, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return None
        except OSError as failure:
            raise _gone(str(failure)) from None
        fds = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(content[: len(content) - len(content) % _FD_SIZE])
        lost = bool(flags & socket.MSG_CTRUNC)
        received = Received(handle_pb2.DaemonPacket(), list(fds), lost)
        try:
            if not data:
                raise _gone("it closed the connection")
            if flags & socket.MSG_TRUNC:
                raise protocol_error("a packet is longer than 64 KiB")
            received.packet.ParseFromString(data)
        except DecodeError:
            received.close_fds()
            raise protocol_error("a packet does not parse") from None
        except TenureError:
            received.close_fds()
            raise
        return received


@contextmanager
def closed_on_error(handle: HandleSocket) -> Iterator[HandleSocket]:
    """Hangs up if what is done meanwhile fails."""
    try:
        yield handle
    except BaseException:
        handle.close()
        raise


def greet(
    handle: HandleSocket, path: str, program: str, instance: str, deadline: Deadline
) -> handle_pb2.Welcome:
    """Says hello and waits for the welcome.

    Raises
    ------
    TenureError
        `SESSION_REFUSED` if the daemon has no session for this client, `DAEMON_UNREACHABLE` if it does
        not answer.
    """
    hello = handle_pb2.ClientPacket()
    hello.hello.protocol_version = PROTOCOL_VERSION
    hello.hello.program = program
    hello.hello.instance = instance
    if not handle.send(hello.SerializeToString()):
        raise unreachable(path, "it takes no packets")
    select.select([handle], [], [], deadline.left())
    received = handle.receive()
    if received is None:
        raise unreachable(path, "it did not greet in time")
    received.close_fds()
    if received.packet.WhichOneof("packet") != "welcome":
        raise protocol_error("the first packet is no Welcome")
    welcome = received.packet.welcome
    if welcome.protocol_version != PROTOCOL_VERSION:
        raise TenureError(
            f"the daemon speaks another protocol version: {welcome.protocol_version}",
            errors.SESSION_REFUSED,
            {"protocol_version": str(welcome.protocol_version)},
        )
    if welcome.session_id == 0:
        raise TenureError("the daemon has no room for another session", errors.SESSION_REFUSED)
    return welcome


def unreachable(path: str, why: str) -> TenureError:
    """Makes the error for a daemon that does not answer on a socket."""
    return TenureError(f"no daemon answers at {path}: {why}", errors.DAEMON_UNREACHABLE, {"path": path})


def _gone(why: str) -> TenureError:
    return TenureError(f"the daemon is gone: {why}", errors.DAEMON_GONE)
