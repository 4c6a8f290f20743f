"""The client: one session with the daemon, and the calls it can make."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import Literal

from tenure import _rpc, _translate
from tenure._array_spec import ArraySpec
from tenure._connection import Connection
from tenure._deadline import Deadline
from tenure._handle import HandleSocket, closed_on_error, greet
from tenure._releases import Release
from tenure._session import Session
from tenure.buffer import BufferSpec
from tenure.lease import WeightLease
from tenure.load import LoadResult
from tenure.model import DaemonStatus, Model, UnloadResult
from tenure.pool import BufferPool, spec_message
from tenure.refusal import DeviceFit, Refusal
from tenure.v1 import admin_pb2, lease_pb2, model_pb2

_MOST_NAME_BYTES = 64


def connect(
    directory: str | os.PathLike[str] | None = None,
    *,
    program: str | None = None,
    instance: str | None = None,
    timeout: float = 30.0,
    load_timeout: float = 600.0,
) -> Client:
    """Opens a session with the daemon of a directory.

    Parameters
    ----------
    directory : path, optional
        Where the daemon's sockets lie; `$TENURE_DIR`, or else /run/tenure, unless given.
    program, instance : str, optional
        Named to operators wherever this client holds something; at most 64 bytes each. The program's own
        name and its process id unless given.
    timeout : float
        How many seconds connecting and each call may take unless the call says otherwise.
    load_timeout : float
        The same for loads.

    Raises
    ------
    TenureError
        `DAEMON_UNREACHABLE` if nothing answers there, `SESSION_REFUSED` if there is no session to be had.
    """
    where = os.path.abspath(directory or os.environ.get("TENURE_DIR") or "/run/tenure")
    path = os.path.join(where, "handle.sock")
    program = os.path.basename(sys.argv[0]) or "python" if program is None else program
    instance = str(os.getpid()) if instance is None else instance
    if max(len(program.encode()), len(instance.encode())) > _MOST_NAME_BYTES:
        raise ValueError(f"program and instance have at most {_MOST_NAME_BYTES} bytes each")
    deadline = Deadline(timeout)
    with closed_on_error(HandleSocket(path, deadline)) as handle:
        welcomed_at = time.monotonic()
        session = Session(greet(handle, path, program, instance, deadline), welcomed_at)
        return Client(Connection(session, handle, where), timeout, load_timeout)


class Client:
    """One session with the daemon; made by `connect`.

    Heartbeats and events run in a thread of its own, so a caller that computes for minutes keeps its
    leases, as long as it lets go of Python's interpreter lock now and then. When the daemon is gone every
    lease is lost and every call raises TenureError with reason `DAEMON_GONE`: connect again. In a forked
    child every call raises it with reason `FORKED`.

    Weights are mapped once per region, read-only, and runtime memory once per segment; both stay mapped for
    quick return until the daemon wants them back. Thread-safe. A context manager that closes.
    """

    def __init__(self, connection: Connection, timeout: float, load_timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._load_timeout = load_timeout

    @property
    def session_id(self) -> int:
        """Unique within one boot of the daemon."""
        return self._connection.session.session_id

    @property
    def boot_id(self) -> str:
        """New at every start of the daemon."""
        return self._connection.session.boot_id

    @property
    def mapped_buffer_bytes(self) -> int:
        """How many bytes of runtime memory are mapped now, in use or kept for quick return."""
        return self._connection.session.mapped_buffer_bytes

    @property
    def mapped_region_count(self) -> int:
        """How many regions are mapped now, in use or kept for quick return."""
        return self._connection.session.mapped_region_count

    def load(
        self,
        name: str,
        path: str | os.PathLike[str],
        *,
        device: str | None = None,
        pin: bool = False,
        retain_ttl: float | Literal["never"] | None = None,
        acquire: bool = False,
        lease_ttl: float | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> LoadResult:
        """Brings a model online; returns once it can be leased.

        Parameters
        ----------
        name : str
            What to call it.
        path : path
            `ROOT/relative` with the name of a model root, or the absolute path under a root as the daemon
            sees it: a safetensors file, or a directory with one or with an index and its shards.
        device : str, optional
            Where; the daemon chooses unless given.
        pin : bool
            Whether it is never unloaded for want of room.
        retain_ttl : float or "never", optional
            How many seconds the memory is kept once the model is offline; "never": until the room is
            needed. As configured unless given.
        acquire : bool
            Whether to return a lease too.
        lease_ttl : float, optional
            As `ttl` of `acquire`.
        validate_only : bool
            Whether only to check the files and tell what the model is.
        timeout : float, optional
            Seconds; the client's `load_timeout` unless given.
        """
        request = model_pb2.LoadModelRequest(
            name=name,
            path=os.fspath(path),
            device=device or "",
            pin=pin,
            request_id=self._connection.next_request_id(),
            validate_only=validate_only,
            acquire=acquire,
        )
        if retain_ttl == "never":
            request.retain_forever = True
        elif retain_ttl is not None:
            request.retain_ttl.CopyFrom(_translate.duration(float(retain_ttl)))
        if lease_ttl is not None:
            request.lease_ttl.CopyFrom(_translate.duration(lease_ttl))
        deadline = Deadline(self._load_timeout if timeout is None else timeout)
        with self._connection.session.granting():
            called_at = time.monotonic()
            undo = Release.of_lease(load_request_id=request.request_id)
            reply = self._connection.grant(_rpc.LOAD_MODEL, request, deadline, undo)
            lease: WeightLease | None = None
            if reply.HasField("lease"):
                lease = self._connection.bind(reply.lease, called_at, deadline)
            return LoadResult(
                model=_translate.model_of(reply.model),
                reuse=_translate.reuse(reply.reuse),
                bytes_copied=reply.bytes_copied,
                segments_created=reply.segments_created,
                segments_reused=reply.segments_reused,
                seconds=_translate.seconds(reply.phases.total),
                reclaimed=tuple(reply.reclaimed),
                lease=lease,
            )

    def acquire(
        self,
        name: str,
        ttl: float | None = None,
        *,
        device: str | None = None,
        timeout: float | None = None,
    ) -> WeightLease:
        """Leases a model's current revision.

        Parameters
        ----------
        name : str
            Of a model that is online.
        ttl : float, optional
            How many seconds the lease outlives the last heartbeat, at least 0.1; as configured unless
            given.
        device : str, optional
            Any that has the model unless given.
        timeout : float, optional
            Seconds; the client's unless given.
        """
        request = lease_pb2.AcquireWeightsRequest(
            name=name, device=device or "", request_id=self._connection.next_request_id()
        )
        if ttl is not None:
            request.ttl.CopyFrom(_translate.duration(ttl))
        deadline = self._deadline(timeout)
        with self._connection.session.granting():
            called_at = time.monotonic()
            undo = Release.of_lease(acquire_request_id=request.request_id)
            reply = self._connection.grant(_rpc.ACQUIRE_WEIGHTS, request, deadline, undo)
            return self._connection.bind(reply.lease, called_at, deadline)

    def open_pool(self, device: str | None = None) -> BufferPool:
        """Opens the runtime memory of a device, for the buffers that an inference needs.

        Nothing is taken before the first buffer is. Pools of one client on one device share memory: what
        one has released serves the other without another mapping.

        Parameters
        ----------
        device : str, optional
            Where this client has runtime memory already, or else where there is most room, unless given.

        Returns
        -------
        BufferPool
            A context manager that releases what was acquired from it.
        """
        self._connection.session.check()
        return BufferPool(self._connection, device or "", self._timeout)

    def unload(
        self,
        name: str,
        *,
        revision: int = 0,
        device: str | None = None,
        timeout: float | None = None,
    ) -> UnloadResult:
        """Takes a model offline. `revision` 0: the current one."""
        request = model_pb2.UnloadModelRequest(name=name, revision=revision, device=device or "")
        return _translate.unload(self._connection.call(_rpc.UNLOAD_MODEL, request, self._deadline(timeout)))

    def get_model(
        self,
        name: str,
        *,
        revision: int = 0,
        device: str | None = None,
        timeout: float | None = None,
    ) -> Model:
        """Looks a model up. `revision` 0: the current one, or else the last one there was."""
        request = model_pb2.GetModelRequest(name=name, revision=revision, device=device or "")
        return _translate.model_of(self._connection.call(_rpc.GET_MODEL, request, self._deadline(timeout)))

    def models(self, *, timeout: float | None = None) -> list[Model]:
        """Lists all models of which memory is held, in the order of name, device, revision."""
        deadline = self._deadline(timeout)
        request = model_pb2.ListModelsRequest()
        found: list[Model] = []
        while True:
            reply = self._connection.call(_rpc.LIST_MODELS, request, deadline)
            found.extend(map(_translate.model_of, reply.models))
            if not reply.next_page_token:
                return found
            request.page_token = reply.next_page_token

    def status(self, *, timeout: float | None = None) -> DaemonStatus:
        """Asks for the daemon's version, devices and ledgers."""
        request = admin_pb2.GetStatusRequest()
        return _translate.status(self._connection.call(_rpc.GET_STATUS, request, self._deadline(timeout)))

    def fit(
        self,
        need: str | os.PathLike[str] | BufferSpec,
        *,
        device: str | None = None,
        timeout: float | None = None,
    ) -> list[DeviceFit]:
        """Asks whether there is room. Takes nothing, and promises nothing for later.

        Parameters
        ----------
        need : path or BufferSpec
            A model, as in `load`, which counts as one that is not loaded yet; or a buffer of this client.
        device : str, optional
            Every device answers unless given.

        Returns
        -------
        list of DeviceFit
            In the order of the daemon's configuration.
        """
        request = admin_pb2.FitRequest(device=device or "")
        if isinstance(need, BufferSpec):
            array = ArraySpec.of(need.shape, need.dtype, need.alignment)
            request.buffer.CopyFrom(spec_message(array, need))
        else:
            request.path = os.fspath(need)
        reply = self._connection.call(_rpc.FIT, request, self._deadline(timeout))
        return list(map(_translate.device_fit, reply.devices))

    def explain(self, refusal_id: int, *, timeout: float | None = None) -> Refusal:
        """Tells again why a call was refused for want of room.

        Parameters
        ----------
        refusal_id : int
            The value `refusal_id` of the TenureError. The daemon keeps the last 1,000: `REFUSAL_NOT_FOUND`
            for any other.
        """
        request = admin_pb2.ExplainRefusalRequest(refusal_id=refusal_id)
        reply = self._connection.call(_rpc.EXPLAIN_REFUSAL, request, self._deadline(timeout))
        return _translate.refusal_of(reply)

    def close(self) -> None:
        """Ends every lease and buffer, gives all memory back that no array shows, and says goodbye."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline(self._timeout if timeout is None else timeout)
