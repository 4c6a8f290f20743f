"""Calls to the daemon over gRPC, each with a deadline and the session's credentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from tenure import errors
from tenure._deadline import Deadline
from tenure.error_detail_pb2 import ErrorDetail, StatusDetail
from tenure.errors import TenureError
from tenure.v1 import admin_pb2, buffer_pb2, lease_pb2, model_pb2, plan_pb2

Response = TypeVar("Response", bound=Message)

_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A proxy in the environment is not for a local socket.
    ("grpc.enable_http_proxy", 0),
)
# Where gRPC puts a google.rpc.Status.
_DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True)
class Method(Generic[Response]):
    """A unary method of the API, and what it answers."""

    path: str
    response: type[Response]


LOAD_MODEL = Method("/tenure.v1.ModelService/LoadModel", model_pb2.LoadModelResponse)
UNLOAD_MODEL = Method("/tenure.v1.ModelService/UnloadModel", model_pb2.UnloadModelResponse)
GET_MODEL = Method("/tenure.v1.ModelService/GetModel", model_pb2.Model)
LIST_MODELS = Method("/tenure.v1.ModelService/ListModels", model_pb2.ListModelsResponse)
LIST_TENSORS = Method("/tenure.v1.ModelService/ListTensors", model_pb2.ListTensorsResponse)
ACQUIRE_WEIGHTS = Method("/tenure.v1.LeaseService/AcquireWeights", lease_pb2.AcquireWeightsResponse)
RELEASE_LEASE = Method("/tenure.v1.LeaseService/ReleaseLease", lease_pb2.ReleaseLeaseResponse)
ACQUIRE_BUFFERS = Method("/tenure.v1.LeaseService/AcquireBuffers", buffer_pb2.AcquireBuffersResponse)
RELEASE_BUFFERS = Method("/tenure.v1.LeaseService/ReleaseBuffers", buffer_pb2.ReleaseBuffersResponse)
PLAN_BUFFERS = Method("/tenure.v1.PlanService/PlanBuffers", plan_pb2.PlanBuffersResponse)
GET_STATUS = Method("/tenure.v1.AdminService/GetStatus", admin_pb2.GetStatusResponse)
FIT = Method("/tenure.v1.AdminService/Fit", admin_pb2.FitResponse)
EXPLAIN_REFUSAL = Method("/tenure.v1.AdminService/ExplainRefusal", admin_pb2.ExplainRefusalResponse)


class Rpc:
    """One channel to the daemon. Thread-safe.

    Parameters
    ----------
    directory : str
        Where the daemon's sockets lie; absolute.
    boot_id, token : str
        Of the session.
    """

    def __init__(self, directory: str, boot_id: str, token: str) -> None:
        self._channel = grpc.insecure_channel(f"unix:{directory}/grpc.sock", options=_OPTIONS)
        self._metadata = (("tenure-boot-id", boot_id), ("tenure-session-token", token))
        self._stubs: dict[str, Any] = {}

    def call(self, method: Method[Response], request: Message, deadline: Deadline) -> Response:
        """Makes a call and waits for its reply.

        Raises
        ------
        TenureError
            What the daemon refused, or that it did not reply.
        """
        deadline.check("the call could not be made")
        try:
            reply: Response = self._stub(method)(
                request, timeout=deadline.left(), metadata=self._metadata
            )
        except grpc.RpcError as failure:
            raise _error_of(failure) from None
        return reply

    def start(self, method: Method[Response], request: Message, timeout: float) -> Any:
        """Makes a call in the background that also waits until the daemon can be reached.

        Returns
        -------
        grpc.Future
            Of the reply.
        """
        return self._stub(method).future(
            request, timeout=timeout, metadata=self._metadata, wait_for_ready=True
        )

    def close(self) -> None:
        """Ends all calls under way and disconnects."""
        self._channel.close()

    def _stub(self, method: Method[Response]) -> Any:
        stub = self._stubs.get(method.path)
        if stub is None:
            stub = self._channel.unary_unary(
                method.path,
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=method.response.FromString,
            )
            self._stubs[method.path] = stub
        return stub


def ended_without_reply(error: TenureError) -> bool:
    """Tells whether a call may have been carried out without the caller learning of it."""
    return error.reason in (errors.DEADLINE, errors.DAEMON_UNREACHABLE)


def _error_of(failure: Any) -> TenureError:
    code = failure.code().name
    detail = _detail_of(failure)
    if detail.reason:
        return TenureError(failure.details(), detail.reason, detail.metadata, code)
    if code == "DEADLINE_EXCEEDED":
        return TenureError("the daemon did not reply in time", errors.DEADLINE, code=code)
    if code in ("UNAVAILABLE", "CANCELLED"):
        return TenureError(
            f"the daemon does not answer: {failure.details()}", errors.DAEMON_UNREACHABLE, code=code
        )
    return TenureError(failure.details(), "", code=code)


def _detail_of(failure: Any) -> ErrorDetail:
    """Finds the google.rpc.ErrorInfo of a failed call; empty if it has none."""
    detail = ErrorDetail()
    for key, value in failure.trailing_metadata() or ():
        if key != _DETAILS_KEY:
            continue
        try:
            for packed in StatusDetail.FromString(value).details:
                if packed.type_url.endswith("/google.rpc.ErrorInfo"):
                    detail.ParseFromString(packed.value)
        except DecodeError:
            return ErrorDetail()
    return detail
