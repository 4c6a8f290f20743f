#include "server/translate.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/check.h"
#include "core/layout/dtype.h"
#include "server/printable.h"

namespace tenure {

google::protobuf::Duration ToProto(Duration duration) {
  google::protobuf::Duration proto;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  proto.set_seconds(seconds.count());
  proto.set_nanos(static_cast<int32_t>((duration - seconds).count()));
  return proto;
}

v1::ModelState ToProto(RegionState state) {
  switch (state) {
    case RegionState::kLoading:
      return v1::MODEL_STATE_LOADING;
    case RegionState::kActive:
      return v1::MODEL_STATE_ACTIVE;
    case RegionState::kDraining:
      return v1::MODEL_STATE_DRAINING;
    case RegionState::kRetained:
      return v1::MODEL_STATE_RETAINED;
    case RegionState::kEmpty:
      return v1::MODEL_STATE_EMPTY;
    case RegionState::kLost:
      return v1::MODEL_STATE_LOST;
    case RegionState::kFreed:
      return v1::MODEL_STATE_GONE;
  }
  TENURE_CHECK(false);
}

v1::Reuse ToProto(Reuse reuse) {
  switch (reuse) {
    case Reuse::kResident:
      return v1::REUSE_RESIDENT;
    case Reuse::kRevived:
      return v1::REUSE_REVIVED;
    case Reuse::kAdopted:
      return v1::REUSE_ADOPTED;
    case Reuse::kRecycled:
      return v1::REUSE_RECYCLED;
    case Reuse::kFresh:
      return v1::REUSE_FRESH;
  }
  TENURE_CHECK(false);
}

v1::Holder ToProto(const Holder& holder) {
  v1::Holder proto;
  proto.set_session_id(holder.session.value());
  proto.set_program(holder.program);
  proto.set_instance(holder.instance);
  proto.set_lease_count(holder.leases);
  proto.set_quarantined(holder.quarantined);
  return proto;
}

v1::Model ToProto(const ModelView& model) {
  v1::Model proto;
  proto.set_name(model.name);
  proto.set_revision(model.revision.value());
  proto.set_state(ToProto(model.state));
  proto.set_device(model.device);
  proto.set_path(Printable(model.path));
  if (model.layout != nullptr) {
    proto.set_architecture_key(model.layout->key().digest.ToHex());
    proto.set_tensor_count(static_cast<uint32_t>(model.layout->specs().size()));
    proto.set_tensor_bytes(model.layout->tensor_bytes().count());
  }
  if (model.content.has_value()) proto.set_content_id(model.content->digest.ToHex());
  proto.set_region_id(model.region.value());
  proto.set_generation(model.generation.value());
  proto.set_region_bytes(model.region_bytes.count());
  proto.set_pinned(model.pinned);
  for (const Holder& holder : model.holders) *proto.add_holders() = ToProto(holder);
  if (model.expires_in.has_value() && *model.expires_in != kForever) {
    *proto.mutable_expires_in() = ToProto(*model.expires_in);
  }
  return proto;
}

v1::WeightLease ToProto(const GrantedLease& lease) {
  v1::WeightLease proto;
  proto.set_lease_id(lease.id.value());
  proto.set_name(lease.name);
  proto.set_revision(lease.revision.value());
  proto.set_device(lease.device);
  proto.set_backend(lease.backend);
  proto.set_device_uuid(lease.device_uuid);
  proto.set_region_id(lease.region.value());
  proto.set_generation(lease.generation.value());
  proto.set_architecture_key(lease.architecture.digest.ToHex());
  proto.set_region_bytes(lease.region_bytes.count());
  proto.set_segment_count(lease.segment_count);
  *proto.mutable_ttl() = ToProto(lease.ttl);
  return proto;
}

v1::Pool ToProto(const PoolView& pool) {
  v1::Pool proto;
  proto.set_pool_id(pool.id.value());
  proto.set_device(pool.device);
  proto.set_backend(pool.backend);
  proto.set_device_uuid(pool.device_uuid);
  proto.set_range_bytes(pool.size.count());
  proto.set_segment_bytes(pool.segment_size.count());
  *proto.mutable_ttl() = ToProto(pool.ttl);
  return proto;
}

v1::Buffer ToProto(const Buffer& buffer) {
  v1::Buffer proto;
  proto.set_buffer_id(buffer.id.value());
  proto.set_offset(buffer.place.begin().count());
  proto.set_size(buffer.place.size().count());
  return proto;
}

v1::LoadModelResponse ToProto(const LoadResult& result) {
  v1::LoadModelResponse proto;
  *proto.mutable_model() = ToProto(result.model);
  proto.set_reuse(ToProto(result.reuse));
  proto.set_bytes_copied(result.copied.count());
  proto.set_segments_created(result.segments_created);
  proto.set_segments_reused(result.segments_reused);
  v1::LoadPhases& phases = *proto.mutable_phases();
  *phases.mutable_open() = ToProto(result.phases.open);
  *phases.mutable_parse() = ToProto(result.phases.parse);
  *phases.mutable_place() = ToProto(result.phases.place);
  *phases.mutable_read() = ToProto(result.phases.read);
  *phases.mutable_copy() = ToProto(result.phases.copy);
  *phases.mutable_publish() = ToProto(result.phases.publish);
  *phases.mutable_total() = ToProto(result.phases.total);
  for (const std::string& reclaimed : result.reclaimed) proto.add_reclaimed(reclaimed);
  if (result.lease.has_value()) *proto.mutable_lease() = ToProto(*result.lease);
  return proto;
}

v1::UnloadModelResponse ToProto(const UnloadResult& result) {
  v1::UnloadModelResponse proto;
  proto.set_state(ToProto(result.state));
  proto.set_freed_bytes(result.freed.count());
  proto.set_retained_bytes(result.retained.count());
  proto.set_deferred_bytes(result.deferred.count());
  for (const Holder& holder : result.holders) *proto.add_holders() = ToProto(holder);
  return proto;
}

v1::LoadProgress ToProto(const LoadProgress& progress) {
  v1::LoadProgress proto;
  proto.set_stage(std::string(progress.stage));
  proto.set_bytes_done(progress.done.count());
  proto.set_bytes_total(progress.total.count());
  proto.set_bytes_per_second(progress.bytes_per_second);
  return proto;
}

v1::LeaseRenewal ToProto(LeaseId id, const DeviceStore::Renewal& renewal, Instant now) {
  v1::LeaseRenewal proto;
  proto.set_lease_id(id.value());
  proto.set_generation(renewal.generation.value());
  if (renewal.lease.ok()) {
    *proto.mutable_expires_in() = ToProto(std::max(Duration::zero(), renewal.lease->expires - now));
  } else if (const std::optional<ErrorDetail> detail = DetailOf(renewal.lease.status())) {
    proto.set_reason(detail->reason);
  }
  return proto;
}

v1::Tensor ToProto(const Layout& layout, size_t index) {
  const TensorSpec& spec = layout.specs()[index];
  const Range place = layout.places()[index];
  v1::Tensor proto;
  proto.set_name(spec.name);
  proto.set_dtype(std::string(DTypeName(spec.dtype)));
  for (const uint64_t dimension : spec.shape) proto.add_shape(dimension);
  proto.set_offset(place.begin().count());
  proto.set_size(place.size().count());
  return proto;
}

v1::ArenaLedger ToProto(std::string_view name, const Ledger& ledger) {
  v1::ArenaLedger arena;
  arena.set_arena(std::string(name));
  arena.set_capacity(ledger.capacity.count());
  arena.set_leased(ledger.leased.count());
  arena.set_loading(ledger.loading.count());
  arena.set_idle(ledger.idle.count());
  arena.set_retained(ledger.retained.count());
  arena.set_quarantined(ledger.quarantined.count());
  arena.set_padding(ledger.padding.count());
  arena.set_cached(ledger.cached.count());
  arena.set_unbacked(ledger.unbacked.count());
  arena.set_pooled(ledger.pooled.count());
  arena.set_stranded(ledger.stranded.count());
  arena.set_lost(ledger.lost.count());
  arena.set_free(ledger.free().count());
  arena.set_reserved(ledger.reserved.count());
  arena.set_allocated(ledger.allocated().count());
  arena.set_requested(ledger.requested().count());
  arena.set_largest_free(ledger.largest_free.count());
  arena.set_fragmentation_ratio(ledger.fragmentation_ratio());
  return arena;
}

v1::Device ToProto(const DeviceInfo& device, const DeviceStore::Snapshot& weights,
                   const RuntimeStore::Snapshot& runtime) {
  v1::Device proto;
  proto.set_name(device.name);
  proto.set_backend(device.backend);
  proto.set_uuid(device.uuid);
  proto.set_total_bytes(device.total.count());
  proto.set_granule_bytes(device.granule.count());
  proto.set_foreign_bytes(weights.foreign.count());
  if (!weights.lost.ok()) proto.set_lost(std::string(weights.lost.message()));
  proto.set_cordoned(weights.cordoned);

  *proto.add_arenas() = ToProto("weights", weights.ledger);
  *proto.add_arenas() = ToProto("runtime", runtime.ledger);

  v1::BackendCounters& counters = *proto.mutable_backend_counters();
  counters.set_segments_created(weights.backend.segments_created);
  counters.set_segments_destroyed(weights.backend.segments_destroyed);
  counters.set_bytes_created(weights.backend.bytes_created.count());
  counters.set_bytes_destroyed(weights.backend.bytes_destroyed.count());
  counters.set_exports(weights.backend.exports);
  return proto;
}

v1::Session ToProto(const SessionView& session, const RegionUse& use) {
  v1::Session proto;
  proto.set_session_id(session.id.value());
  proto.set_program(session.identity.program);
  proto.set_instance(session.identity.instance);
  proto.set_uid(session.identity.uid);
  proto.set_gid(session.identity.gid);
  proto.set_pid(session.identity.pid);
  switch (session.state) {
    case SessionState::kLive:
      proto.set_state(v1::SESSION_STATE_LIVE);
      break;
    case SessionState::kDeaf:
      proto.set_state(v1::SESSION_STATE_DEAF);
      break;
    case SessionState::kGone:
      proto.set_state(v1::SESSION_STATE_GONE);
      break;
  }
  proto.set_lease_count(use.leases);
  proto.set_share_count(use.shares);
  proto.set_quarantined_share_count(use.quarantined_shares);
  *proto.mutable_silent_for() = ToProto(session.silent_for);
  return proto;
}

v1::Readiness ToProto(const WantedModels::Progress& progress) {
  v1::Readiness proto;
  proto.set_ready(progress.ready);
  proto.set_wanted(static_cast<uint32_t>(progress.wanted));
  for (const WantedModels::Pending& pending : progress.pending) {
    v1::PendingModel& model = *proto.add_pending();
    model.set_name(pending.model.name);
    model.set_path(pending.model.path);
    model.set_device(pending.model.device);
    model.set_loading(pending.loading);
    if (pending.error.ok()) continue;
    model.set_reason(DetailOf(pending.error).value_or(ErrorDetail{}).reason);
    model.set_message(std::string(pending.error.message()));
  }
  return proto;
}

}  // namespace tenure
