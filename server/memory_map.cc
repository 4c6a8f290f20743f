#include "server/memory_map.h"

#include <algorithm>
#include <chrono>
#include <google/protobuf/util/json_util.h>
#include <utility>

#include "core/base/check.h"
#include "server/printable.h"
#include "server/translate.h"

namespace tenure {
namespace {

using tenure::ToProto;

constexpr uint32_t kSchema = 1;

v1::Holding ToProto(Holding holding) {
  switch (holding) {
    case Holding::kLost:
      return v1::HOLDING_LOST;
    case Holding::kLoading:
      return v1::HOLDING_LOADING;
    case Holding::kLeased:
      return v1::HOLDING_LEASED;
    case Holding::kQuarantined:
      return v1::HOLDING_QUARANTINED;
    case Holding::kIdle:
      return v1::HOLDING_IDLE;
    case Holding::kRetained:
      return v1::HOLDING_RETAINED;
  }
  TENURE_CHECK(false);
}

v1::BufferKind ToProto(BufferKind kind) {
  switch (kind) {
    case BufferKind::kActivation:
      return v1::BUFFER_KIND_ACTIVATION;
    case BufferKind::kWorkspace:
      return v1::BUFFER_KIND_WORKSPACE;
    case BufferKind::kIo:
      return v1::BUFFER_KIND_IO;
  }
  TENURE_CHECK(false);
}

v1::PoolSegmentState ToProto(PoolSegmentState state) {
  switch (state) {
    case PoolSegmentState::kComing:
      return v1::POOL_SEGMENT_STATE_COMING;
    case PoolSegmentState::kOpen:
      return v1::POOL_SEGMENT_STATE_OPEN;
    case PoolSegmentState::kGranted:
      return v1::POOL_SEGMENT_STATE_GRANTED;
    case PoolSegmentState::kLeaving:
      return v1::POOL_SEGMENT_STATE_LEAVING;
  }
  TENURE_CHECK(false);
}

v1::SegmentRun ToProto(const SegmentRun& run) {
  v1::SegmentRun proto;
  proto.set_size(run.size.count());
  proto.set_count(run.count);
  return proto;
}

v1::RegionMap ToProto(const RegionMap& region) {
  v1::RegionMap proto;
  proto.set_region_id(region.id.value());
  proto.set_model(region.model);
  proto.set_revision(region.revision.value());
  proto.set_pinned(region.pinned);
  proto.set_state(ToProto(region.state));
  proto.set_holding(ToProto(region.holding));
  proto.set_generation(region.generation.value());
  proto.set_architecture_key(region.layout->key().digest.ToHex());
  proto.set_bytes(region.bytes.count());
  proto.set_tensor_bytes(region.layout->tensor_bytes().count());
  proto.set_tensor_count(static_cast<uint32_t>(region.layout->specs().size()));
  for (const SegmentRun& run : region.segments) *proto.add_segments() = ToProto(run);
  if (region.expires_in.has_value()) *proto.mutable_expires_in() = ToProto(*region.expires_in);
  for (const RegionMap::Hold& hold : region.holds) {
    v1::RegionHolder& holder = *proto.add_holders();
    holder.set_session_id(hold.session.value());
    holder.set_leases(hold.leases);
    holder.set_mapped(hold.shared);
    holder.set_quarantined(hold.quarantined);
    if (hold.expires_in.has_value()) {
      *holder.mutable_lease_expires_in() = ToProto(*hold.expires_in);
    }
  }
  return proto;
}

v1::PoolMap ToProto(PoolMap& pool, Instant taken) {
  v1::PoolMap proto;
  proto.set_pool_id(pool.id.value());
  proto.set_session_id(pool.session.value());
  proto.set_live(pool.live);
  if (pool.live && pool.expires != kNever) {
    *proto.mutable_lease_expires_in() =
        ToProto(std::max(Duration::zero(), Duration(pool.expires - taken)));
  }
  proto.set_segment_bytes(pool.segment_size.count());
  Bytes offset;
  for (const BufferKind kind : kAllBufferKinds) {
    v1::KindRange& range = *proto.add_kinds();
    range.set_kind(ToProto(kind));
    range.set_offset(offset.count());
    range.set_size(pool.kind_bytes.count());
    offset += pool.kind_bytes;
  }
  for (const PoolMap::SegmentPlace& place : pool.segments) {
    v1::PoolSegmentMap& segment = *proto.add_segments();
    segment.set_offset(place.offset.count());
    segment.set_state(ToProto(place.state));
    segment.set_mapped(place.shared);
    segment.set_unanswered(place.unanswered);
  }
  std::sort(pool.buffers.begin(), pool.buffers.end(), [](const auto& a, const auto& b) {
    return a.buffer.place.begin() < b.buffer.place.begin();
  });
  for (const PoolMap::BufferPlace& place : pool.buffers) {
    v1::BufferMap& buffer = *proto.add_buffers();
    buffer.set_buffer_id(place.buffer.id.value());
    buffer.set_kind(ToProto(place.buffer.kind));
    buffer.set_offset(place.buffer.place.begin().count());
    buffer.set_size(place.buffer.place.size().count());
    buffer.set_requested(place.buffer.requested.count());
    *buffer.mutable_age() = ToProto(std::max(Duration::zero(), Duration(taken - place.since)));
  }
  return proto;
}

v1::MapCounters CountersOf(const StoreCounters& weights, const RuntimeMap& runtime) {
  v1::MapCounters proto;
  uint64_t loads = 0;
  for (const uint64_t count : weights.loads) loads += count;
  proto.set_loads(loads);
  proto.set_copied_bytes(weights.copied_bytes);
  proto.set_leases_granted(weights.leases_granted);
  proto.set_leases_released(weights.leases_released);
  proto.set_leases_expired(weights.leases_expired);
  proto.set_buffers_granted(runtime.buffers_granted);
  proto.set_buffers_released(runtime.buffers_released);
  return proto;
}

v1::DeviceMap ToProto(const DeviceInfo& info, const WeightsMap& weights, RuntimeMap& runtime) {
  v1::DeviceMap proto;
  proto.set_name(info.name);
  proto.set_backend(info.backend);
  proto.set_uuid(info.uuid);
  proto.set_total_bytes(info.total.count());
  proto.set_foreign_bytes(weights.foreign.count());
  if (!weights.lost.ok()) proto.set_lost(Printable(std::string(weights.lost.message())));

  v1::ArenaMap& weights_arena = *proto.add_arenas();
  *weights_arena.mutable_ledger() = ToProto("weights", weights.ledger);
  for (const RegionMap& region : weights.regions) *weights_arena.add_regions() = ToProto(region);
  for (const SegmentRun& run : weights.cached) *weights_arena.add_cached() = ToProto(run);
  weights_arena.set_leaving_bytes(weights.leaving.count());

  v1::ArenaMap& runtime_arena = *proto.add_arenas();
  *runtime_arena.mutable_ledger() = ToProto("runtime", runtime.ledger);
  for (PoolMap& pool : runtime.pools) *runtime_arena.add_pools() = ToProto(pool, runtime.taken);
  for (const SegmentRun& run : runtime.cached) *runtime_arena.add_cached() = ToProto(run);
  runtime_arena.set_leaving_bytes(runtime.leaving.count());
  runtime_arena.set_waiting(runtime.waiting);
  *proto.mutable_counters() = CountersOf(weights.counters, runtime);
  return proto;
}

v1::MapSession ToProto(SessionId id, const SessionIdentity& identity) {
  v1::MapSession proto;
  proto.set_session_id(id.value());
  proto.set_program(identity.program);
  proto.set_instance(identity.instance);
  proto.set_uid(identity.uid);
  proto.set_pid(identity.pid);
  return proto;
}

}  // namespace

MapMaker::MapMaker(const Store& store, const Clock& clock, std::string boot_id)
    : store_(store), clock_(clock), boot_id_(std::move(boot_id)), started_(clock.Now()) {}

v1::MemoryMap MapMaker::Take() const {
  v1::MemoryMap map;
  map.set_schema(kSchema);
  map.set_version(TENURE_VERSION);
  map.set_boot_id(boot_id_);
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  map.mutable_time()->set_seconds(seconds.count());
  map.mutable_time()->set_nanos(
      static_cast<int32_t>(std::chrono::nanoseconds(time - seconds).count()));
  *map.mutable_uptime() = ToProto(clock_.Now() - started_);
  Identities sessions;
  for (size_t i = 0; i < store_.devices().size(); ++i) {
    WeightsMap weights = store_.devices()[i]->TakeMap();
    RuntimeMap runtime = store_.runtimes()[i]->TakeMap();
    *map.add_devices() = ToProto(store_.devices()[i]->device_info(), weights, runtime);
    sessions.merge(weights.sessions);
    sessions.merge(runtime.sessions);
  }
  for (const auto& [id, identity] : sessions) *map.add_sessions() = ToProto(id, identity);
  return map;
}

}  // namespace tenure
