"""A session and its calls: what a Client and its leases share."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from google.protobuf.message import Message

from tenure import _translate
from tenure._deadline import Deadline
from tenure._handle import HandleSocket
from tenure._held_leases import HeldLease
from tenure._pools import HeldBuffer
from tenure._releases import Release, Releases
from tenure._rpc import ACQUIRE_BUFFERS, LIST_TENSORS, Method, Response, Rpc, ended_without_reply
from tenure._session import Session
from tenure._session_thread import CLOSE_WAIT, SessionThread
from tenure._window import Window
from tenure.errors import TenureError, protocol_error, unsupported_backend_error
from tenure.lease import WeightLease
from tenure.model import TensorPlace
from tenure.v1 import buffer_pb2, model_pb2

# How long giving a lease back may keep a caller; after that it goes on behind its back.
_RELEASE_WAIT = 2.0
_MOST_TENSORS_PER_PAGE = 10_000
_MOST_BUFFERS_PER_RELEASE = 10_000
# Whose memory is mapped with mmap.
_HOST_BACKEND = "host"


class Detachable(Protocol):
    """What shows the daemon's memory."""

    def detach(self) -> object:
        """Lets go of the memory without telling the daemon."""


class Connection:
    """Lives as long as its client, a lease, a pool or an array of one. Thread-safe.

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
        self._lock = threading.Lock()  # guards what follows
        self._showing: weakref.WeakSet[Detachable] = weakref.WeakSet()
        self._thread = SessionThread(
            session,
            handle,
            lambda held: releases.start(_release_of(held)),
            lambda held: _start_all(releases, held),
        )
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
        undo: Release,
    ) -> Response:
        """Makes a call that may grant something. If it ends without a reply, `undo` is called."""
        try:
            return self.call(method, request, deadline)
        except BaseException as failure:
            # A call that was interrupted ended without a reply too.
            if not isinstance(failure, TenureError) or ended_without_reply(failure):
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
        self.track(lease)
        return lease

    def release(self, held: HeldLease) -> None:
        """Gives a lease back that was dropped, and waits for the daemon's word, two seconds at most."""
        release = _release_of(held)
        self.grant(release.method, release.request, Deadline(_RELEASE_WAIT), undo=release)

    def acquire_buffers(
        self, request: buffer_pb2.AcquireBuffersRequest, deadline: Deadline
    ) -> tuple[buffer_pb2.Pool, list[tuple[HeldBuffer, Window]]]:
        """Acquires buffers, all or nothing, and maps what of their pool is not mapped yet."""
        request.request_id = self.next_request_id()
        undo = Release.of_buffers(request_id=request.request_id)
        with self.session.granting():
            called_at = time.monotonic()
            reply = self.grant(ACQUIRE_BUFFERS, request, deadline, undo)
            try:
                if reply.pool.backend != _HOST_BACKEND:
                    raise unsupported_backend_error(reply.pool.device, reply.pool.backend)
                _check_granted(request, reply)
                held = self.session.hold_buffers(reply.pool, reply.buffers, called_at, deadline)
            except BaseException:
                for release in _releases_of(buffer.buffer_id for buffer in reply.buffers):
                    self._releases.start(release)
                raise
        for _, window in held:
            window.keeps_alive = self
        return reply.pool, held

    def release_buffers(self, held: Sequence[HeldBuffer]) -> dict[int, str]:
        """Gives buffers back that were dropped, and waits for the daemon's word, two seconds at most.

        Returns
        -------
        dict[int, str]
            Why buffers could not be released, by id.
        """
        deadline = Deadline(_RELEASE_WAIT)
        unreleased: dict[int, str] = {}
        failed: TenureError | None = None
        for release in _releases_of(each.buffer_id for each in held):
            try:
                reply = self.grant(release.method, release.request, deadline, undo=release)
            except TenureError as failure:
                failed = failure
                continue
            unreleased.update((each.buffer_id, each.reason) for each in reply.unreleased)
        if failed is not None:
            raise failed
        return unreleased

    def start_release(self, held: Sequence[HeldBuffer]) -> None:
        """Gives buffers back that were dropped, without waiting."""
        _start_all(self._releases, held)

    def track(self, showing: Detachable) -> None:
        """Has it detached when the connection closes."""
        with self._lock:
            self._showing.add(showing)

    def next_request_id(self) -> str:
        """Makes an id that no other call of this session has."""
        return f"auto-{next(self._request_ids)}"

    def close(self) -> None:
        """Ends every lease and buffer, gives all memory back that no array shows, and says goodbye."""
        if self.session.forked:
            return
        with self._lock:
            showing = list(self._showing)
        for each in showing:
            each.detach()
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


def _release_of(held: HeldLease) -> Release:
    return Release.of_lease(lease_id=held.lease_id)


def _releases_of(buffer_ids: Iterable[int]) -> Iterator[Release]:
    waiting = list(buffer_ids)
    for first in range(0, len(waiting), _MOST_BUFFERS_PER_RELEASE):
        ids = waiting[first : first + _MOST_BUFFERS_PER_RELEASE]
        yield Release.of_buffers(buffers=buffer_pb2.BufferIds(buffer_ids=ids))


def _start_all(releases: Releases, held: Iterable[HeldBuffer]) -> None:
    for release in _releases_of(each.buffer_id for each in held):
        releases.start(release)


def _check_granted(
    request: buffer_pb2.AcquireBuffersRequest, reply: buffer_pb2.AcquireBuffersResponse
) -> None:
    sizes = [buffer.size for buffer in reply.buffers]
    if len(sizes) != len(request.buffers) or any(
        size < asked.size for size, asked in zip(sizes, request.buffers)
    ):
        raise protocol_error("the buffers are not those that were asked for")
