"""Gives back behind the caller's back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message

from tenure._rpc import RELEASE_BUFFERS, RELEASE_LEASE, Method, Rpc
from tenure.v1 import buffer_pb2, lease_pb2

# How long one attempt may take.
_ATTEMPT = 30.0


@dataclass(frozen=True)
class Release:
    """A call that gives something back, however often it is made."""

    method: Method[Any]
    request: Message

    @classmethod
    def of_lease(cls, **which: Any) -> Release:
        """Makes it of a field of ReleaseLeaseRequest."""
        return cls(RELEASE_LEASE, lease_pb2.ReleaseLeaseRequest(**which))

    @classmethod
    def of_buffers(cls, **which: Any) -> Release:
        """Makes it of a field of ReleaseBuffersRequest."""
        return cls(RELEASE_BUFFERS, buffer_pb2.ReleaseBuffersRequest(**which))


class Releases:
    """Releases that nobody waits for. Each is tried until the daemon has answered. Thread-safe.

    Parameters
    ----------
    rpc : Rpc
        Makes the calls.
    alive : Callable[[], bool]
        Whether the session is still there. When it is over, so is what it held.
    """

    def __init__(self, rpc: Rpc, alive: Callable[[], bool]) -> None:
        self._rpc = rpc
        self._alive = alive

    def start(self, release: Release) -> None:
        """Releases what the request names."""
        if not self._alive():
            return
        try:
            future = self._rpc.start(release.method, release.request, _ATTEMPT)
        except ValueError:  # the channel was closed meanwhile
            return
        future.add_done_callback(lambda done: self._on_done(done, release))

    def _on_done(self, done: Any, release: Release) -> None:
        # An answer ends it, whichever it is: what is not found needs no release.
        if done.code() in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE):
            self.start(release)
