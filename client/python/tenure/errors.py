"""Why a call failed, for programs.

Every refusal of the daemon has a reason out of a closed set and named values beside its message. The
reasons of the daemon are those of its API; the client's own are:

===================== =========================================================================
`DAEMON_UNREACHABLE`  nothing answers in the directory
`DAEMON_GONE`         the daemon closed the connection: connect again
`SESSION_REFUSED`     the daemon answered, but opens no session for this client
`HEARTBEAT_MISSED`    no answer for so long that the lease or buffer may have ended
`RELEASED`            the lease or buffer was released, or its client closed
`SLOT_CLOSED`         the slot was closed
`NOT_PLANNED`         the plan has no such buffer: value `buffer`
`ACQUIRED`            this buffer of the slot was acquired, and not released since
`NOT_ACQUIRED`        this buffer of the slot was not acquired, or was released since
`FORKED`              the client was made by the process that this one was forked from
`PROTOCOL`            the daemon said something that its protocol rules out
`MAPPING`             this process could not map the memory
`UNSUPPORTED_BACKEND` the memory is not the host's, and this client maps no other
===================== =========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping

DAEMON_UNREACHABLE = "DAEMON_UNREACHABLE"
DAEMON_GONE = "DAEMON_GONE"
SESSION_REFUSED = "SESSION_REFUSED"
HEARTBEAT_MISSED = "HEARTBEAT_MISSED"
RELEASED = "RELEASED"
SLOT_CLOSED = "SLOT_CLOSED"
NOT_PLANNED = "NOT_PLANNED"
ACQUIRED = "ACQUIRED"
NOT_ACQUIRED = "NOT_ACQUIRED"
FORKED = "FORKED"
PROTOCOL = "PROTOCOL"
MAPPING = "MAPPING"
UNSUPPORTED_BACKEND = "UNSUPPORTED_BACKEND"

# The daemon's own reasons that the client acts on.
DEADLINE = "DEADLINE"
LEASE_EXPIRED = "LEASE_EXPIRED"
LEASE_NOT_FOUND = "LEASE_NOT_FOUND"

# The daemon's, for what the client refuses in its place.
PLAN_TOO_SMALL = "PLAN_TOO_SMALL"
PLAN_OVERLAP = "PLAN_OVERLAP"


class TenureError(Exception):
    """A call that failed.

    Parameters
    ----------
    message : str
        For people.
    reason : str
        For programs: "CAPACITY", "MODEL_NOT_FOUND", ...
    values : Mapping[str, str], optional
        Named values: {"free_bytes": "1048576"}.
    code : str, optional
        The gRPC status code, "NOT_FOUND"; empty if no call was made.

    Attributes
    ----------
    reason, values, code
        As above.
    """

    def __init__(
        self, message: str, reason: str, values: Mapping[str, str] | None = None, code: str = ""
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.values = dict(values or {})
        self.code = code

    def __str__(self) -> str:
        return f"{super().__str__()} [{self.reason}]" if self.reason else super().__str__()


class LeaseLostError(TenureError):
    """The lease or buffer had ended: what was read through it since may have been another's bytes."""


def plan_overlap_error(name: str, other: str, what: str) -> TenureError:
    """Makes the error for two buffers that a plan has on the same bytes."""
    return TenureError(
        f"{what}: {name!r} and {other!r}", PLAN_OVERLAP, {"buffer": name, "other": other}
    )


def protocol_error(message: str) -> TenureError:
    """Makes the error for something that the protocol rules out."""
    return TenureError(f"the daemon broke the protocol: {message}", PROTOCOL)


def unsupported_backend_error(device: str, backend: str) -> TenureError:
    """Makes the error for memory that this client cannot map."""
    return TenureError(
        f'{device} is of the backend "{backend}"; the Python client maps memory of the host only',
        UNSUPPORTED_BACKEND,
        {"device": device, "backend": backend},
    )


def forked_error() -> TenureError:
    """Makes the error for a client that was inherited over a fork."""
    return TenureError(
        "this client belongs to the process that this one was forked from; connect anew", FORKED
    )
