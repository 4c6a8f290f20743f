"""Turns protocol messages into the values of model.py, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration

from tenure import model, refusal
from tenure.v1 import admin_pb2, ledger_pb2, model_pb2, plan_pb2

if TYPE_CHECKING:
    from tenure.plan import BufferUse

# Of a buffer whose last use is not known.
_NEVER_ENDS = 1 << 46


def seconds(duration: Duration) -> float:
    """Turns a Duration into seconds."""
    return float(duration.seconds + duration.nanos / 1e9)


def duration(span: float) -> Duration:
    """Turns seconds into a Duration."""
    nanos = round(span * 1e9)
    return Duration(seconds=nanos // 10**9, nanos=nanos % 10**9)


def state(value: int) -> model.ModelState:
    """Turns a model's state."""
    name = model_pb2.ModelState.Name(value)
    return model.ModelState(name.removeprefix("MODEL_STATE_").lower())


def reuse(value: int) -> model.Reuse:
    """Turns the way a load got its memory."""
    return model.Reuse(model_pb2.Reuse.Name(value).removeprefix("REUSE_").lower())


def holder(message: model_pb2.Holder) -> model.Holder:
    """Turns a holder."""
    return model.Holder(
        session_id=message.session_id,
        program=message.program,
        instance=message.instance,
        lease_count=message.lease_count,
        quarantined=message.quarantined,
    )


def model_of(message: model_pb2.Model) -> model.Model:
    """Turns a model."""
    return model.Model(
        name=message.name,
        revision=message.revision,
        state=state(message.state),
        device=message.device,
        path=message.path,
        architecture_key=message.architecture_key,
        content_id=message.content_id,
        region_id=message.region_id,
        generation=message.generation,
        tensor_count=message.tensor_count,
        tensor_bytes=message.tensor_bytes,
        region_bytes=message.region_bytes,
        pinned=message.pinned,
        holders=tuple(map(holder, message.holders)),
        expires_in=seconds(message.expires_in) if message.HasField("expires_in") else None,
    )


def tensor(message: model_pb2.Tensor) -> model.TensorPlace:
    """Turns a tensor's place."""
    return model.TensorPlace(
        name=message.name,
        dtype=message.dtype,
        shape=tuple(message.shape),
        offset=message.offset,
        size=message.size,
    )


def unload(message: model_pb2.UnloadModelResponse) -> model.UnloadResult:
    """Turns what an unload did."""
    return model.UnloadResult(
        state=state(message.state),
        freed_bytes=message.freed_bytes,
        retained_bytes=message.retained_bytes,
        deferred_bytes=message.deferred_bytes,
        holders=tuple(map(holder, message.holders)),
    )


def ledger(message: ledger_pb2.ArenaLedger) -> model.ArenaLedger:
    """Turns an arena's ledger."""
    return model.ArenaLedger(
        capacity=message.capacity,
        leased=message.leased,
        loading=message.loading,
        idle=message.idle,
        retained=message.retained,
        quarantined=message.quarantined,
        padding=message.padding,
        stranded=message.stranded,
        free=message.free,
        cached=message.cached,
        pooled=message.pooled,
        largest_free=message.largest_free,
        lost=message.lost,
    )


def device(message: admin_pb2.Device) -> model.DeviceStatus:
    """Turns a device."""
    return model.DeviceStatus(
        name=message.name,
        backend=message.backend,
        uuid=message.uuid,
        total_bytes=message.total_bytes,
        granule_bytes=message.granule_bytes,
        arenas={each.arena: ledger(each) for each in message.arenas},
        segments_created=message.backend_counters.segments_created,
        segments_destroyed=message.backend_counters.segments_destroyed,
        exports=message.backend_counters.exports,
        foreign_bytes=message.foreign_bytes,
        lost=message.lost,
    )


def status(message: admin_pb2.GetStatusResponse) -> model.DaemonStatus:
    """Turns the daemon's state."""
    return model.DaemonStatus(
        version=message.version,
        boot_id=message.boot_id,
        devices=tuple(map(device, message.devices)),
    )


def device_fit(message: admin_pb2.DeviceFit) -> refusal.DeviceFit:
    """Turns what a device says of a request."""
    name = "UNSPECIFIED"
    if message.verdict in admin_pb2.FitVerdict.values():
        name = admin_pb2.FitVerdict.Name(message.verdict).removeprefix("FIT_VERDICT_")
    return refusal.DeviceFit(
        device=message.device,
        verdict=refusal.FitVerdict[name],
        needed=message.needed_bytes,
        capacity=message.capacity_bytes,
        free=message.free_bytes,
        largest_now=message.largest_now_bytes,
        largest=message.largest_bytes,
        explanation=message.explanation,
    )


def refusal_of(message: admin_pb2.ExplainRefusalResponse) -> refusal.Refusal:
    """Turns a refusal."""
    told = message.refusal
    return refusal.Refusal(
        refusal_id=told.refusal_id,
        age=seconds(told.age),
        method=told.method,
        session_id=told.session_id,
        program=told.program,
        instance=told.instance,
        reason=told.reason,
        message=told.message,
        values=dict(told.values),
        now=device_fit(message.now) if message.HasField("now") else None,
    )


def plan_request(uses: Sequence[BufferUse], budget: float | None) -> plan_pb2.PlanBuffersRequest:
    """Turns what is to be planned."""
    request = plan_pb2.PlanBuffersRequest(
        ids=[use.id for use in uses],
        sizes=[use.nbytes for use in uses],
        alignments=[use.alignment for use in uses],
        first_uses=[use.first_use for use in uses],
        ends=[_NEVER_ENDS if use.end is None else use.end for use in uses],
        outputs=[index for index, use in enumerate(uses) if use.output],
    )
    for index, use in enumerate(uses):
        for begin, end in use.gaps:
            request.gaps.add(buffer=index, begin=begin, end=end)
        if use.alias_group is not None:
            request.aliases.add(buffer=index, group=use.alias_group)
    if budget is not None:
        request.budget.CopyFrom(duration(budget))
    return request
