"""A session and its calls: what a Client and its leases share."""

from __future__ import annotations

import itertools
import weakref

from google.protobuf.message import Message

from tenure import _translate
from tenure._deadline import Deadline
from tenure._handle import HandleSocket
from tenure._held_leases import HeldLease
from tenure._releases import Releases
from tenure._rpc import LIST_TENSORS, RELEASE_LEASE, Method, Response, Rpc, ended_without_reply
from tenure._session import Session
from tenure._session_thread import CLOSE_WAIT, SessionThread
from tenure.errors import TenureError, protocol_error, unsupported_backend_error
from tenure.lease import WeightLease
from tenure.model import TensorPlace
from tenure.v1 import lease_pb2, model_pb2

# How long giving a lease back may keep a caller; after that it goes on behind its back.
_RELEASE_WAIT = 2.0
_MOST_TENSORS_PER_PAGE = 10_000
# Whose memory is mapped with mmap.
_HOST_BACKEND = "host"


class Connection:
    """Lives as long as its client, a lease or an array of one. Thread-safe.

    Parameters
    ----------
    session : Session
        Just opened.
    handle : HandleSocket
        After the greeting.
    directory : str
        Where the daemon's sockets lie; absolute.
    """

    def __init__(self, session: Session, handle: HandleSocket, directory: str) -> None:
        self.session = session
        self._rpc = Rpc(directory, session.boot_id, session.token)
        self._releases = releases = Releases(self._rpc, lambda: session.alive)
        self._request_ids = itertools.count(1)
        self._tables: dict[str, dict[str, TensorPlace]] = {}
        self._leases: weakref.WeakSet[WeightLease] = weakref.WeakSet()
        self._thread = SessionThread(session, handle, lambda held: releases.start(_release_of(held)))
        self._thread.start()
        weakref.finalize(self, session.request_close)

    def call(self, method: Method[Response], request: Message, deadline: Deadline) -> Response:
        """Makes a call.

        Raises
        ------
        TenureError
            What the daemon refused, or why there is no reply.
        """
        self.session.check()
        try:
            return self._rpc.call(method, request, deadline)
        except TenureError as failure:
            if ended_without_reply(failure):
                # That the session is over explains more.
                self.session.check()
            raise

    def grant(
        self,
        method: Method[Response],
        request: Message,
        deadline: Deadline,
        undo: lease_pb2.ReleaseLeaseRequest,
    ) -> Response:
        """Makes a call that may grant a lease. If it ends without a reply, `undo` is called."""
        try:
            return self.call(method, request, deadline)
        except TenureError as failure:
            if ended_without_reply(failure):
                self._releases.start(undo)
            raise

    def bind(self, granted: model_pb2.WeightLease, called_at: float, deadline: Deadline) -> WeightLease:
        """Maps the memory of a lease that was granted by a call made at `called_at`."""
        held = HeldLease.granted(granted, called_at)
        if granted.backend != _HOST_BACKEND:
            self._releases.start(_release_of(held))
            raise unsupported_backend_error(granted.device, granted.backend)
        try:
            window = self.session.hold(held, deadline)
            places = self._table_of(granted, deadline)
        except BaseException:
            self.session.drop(held)
            self._releases.start(_release_of(held))
            raise
        lease = WeightLease(self.session, held, window, granted, places, self.release, self)
        self._leases.add(lease)
        return lease

    def release(self, held: HeldLease) -> None:
        """Gives a lease back that was dropped, and waits for the daemon's word, two seconds at most."""
        try:
            self.call(RELEASE_LEASE, _release_of(held), Deadline(_RELEASE_WAIT))
        except TenureError as failure:
            if ended_without_reply(failure):
                self._releases.start(_release_of(held))
            raise

    def next_request_id(self) -> str:
        """Makes an id that no other call of this session has."""
        return f"auto-{next(self._request_ids)}"

    def close(self) -> None:
        """Ends every lease, gives all memory back that no array shows, and says goodbye."""
        if self.session.forked:
            return
        for lease in list(self._leases):
            lease.detach()
        self.session.request_close()
        self._thread.join(CLOSE_WAIT * 2)
        self._rpc.close()

    def _table_of(self, granted: model_pb2.WeightLease, deadline: Deadline) -> dict[str, TensorPlace]:
        """Gives the tensor table of a lease's model; it depends on the architecture alone."""
        table = self._tables.get(granted.architecture_key)
        if table is None:
            table = self._list_tensors(granted, deadline)
            self._tables[granted.architecture_key] = table
        if any(place.offset + place.size > granted.region_bytes for place in table.values()):
            raise protocol_error(f"the tensors do not fit their region, bytes: {granted.region_bytes}")
        return table

    def _list_tensors(
        self, granted: model_pb2.WeightLease, deadline: Deadline
    ) -> dict[str, TensorPlace]:
        request = model_pb2.ListTensorsRequest(
            name=granted.name,
            revision=granted.revision,
            device=granted.device,
            page_size=_MOST_TENSORS_PER_PAGE,
        )
        table: dict[str, TensorPlace] = {}
        while True:
            reply = self.call(LIST_TENSORS, request, deadline)
            if reply.architecture_key != granted.architecture_key:
                raise protocol_error(f"the tensors are of another model: {reply.architecture_key}")
            table.update((place.name, place) for place in map(_translate.tensor, reply.tensors))
            if not reply.next_page_token:
                return table
            request.page_token = reply.next_page_token


def _release_of(held: HeldLease) -> lease_pb2.ReleaseLeaseRequest:
    return lease_pb2.ReleaseLeaseRequest(lease_id=held.lease_id)
