"""Gives leases back behind the caller's back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from tenure._rpc import RELEASE_LEASE, Rpc
from tenure.v1 import lease_pb2

# How long one attempt may take.
_ATTEMPT = 30.0


class Releases:
    """Releases that nobody waits for. Each is tried until the daemon has answered. Thread-safe.

    Parameters
    ----------
    rpc : Rpc
        Makes the calls.
    alive : Callable[[], bool]
        Whether the session is still there. When it is over, so are its leases.
    """

    def __init__(self, rpc: Rpc, alive: Callable[[], bool]) -> None:
        self._rpc = rpc
        self._alive = alive

    def start(self, request: lease_pb2.ReleaseLeaseRequest) -> None:
        """Releases what the request names."""
        if not self._alive():
            return
        try:
            future = self._rpc.start(RELEASE_LEASE, request, _ATTEMPT)
        except ValueError:  # the channel was closed meanwhile
            return
        future.add_done_callback(lambda done: self._on_done(done, request))

    def _on_done(self, done: Any, request: lease_pb2.ReleaseLeaseRequest) -> None:
        # An answer ends it, whichever it is: a lease that is not found needs no release.
        if done.code() in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE):
            self.start(request)
