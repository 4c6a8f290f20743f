#include "client/cpp/translate.h"

#include "client/cpp/duration.h"
#include "client/cpp/error.h"

namespace tenure::client {
namespace {

ModelState ToValue(v1::ModelState state) {
  switch (state) {
    case v1::MODEL_STATE_LOADING:
      return ModelState::kLoading;
    case v1::MODEL_STATE_ACTIVE:
      return ModelState::kActive;
    case v1::MODEL_STATE_DRAINING:
      return ModelState::kDraining;
    case v1::MODEL_STATE_RETAINED:
      return ModelState::kRetained;
    case v1::MODEL_STATE_EMPTY:
      return ModelState::kEmpty;
    case v1::MODEL_STATE_GONE:
      return ModelState::kGone;
    case v1::MODEL_STATE_LOST:
      return ModelState::kLost;
    default:
      return ModelState::kUnspecified;
  }
}

Reuse ToValue(v1::Reuse reuse) {
  switch (reuse) {
    case v1::REUSE_RESIDENT:
      return Reuse::kResident;
    case v1::REUSE_REVIVED:
      return Reuse::kRevived;
    case v1::REUSE_ADOPTED:
      return Reuse::kAdopted;
    case v1::REUSE_RECYCLED:
      return Reuse::kRecycled;
    case v1::REUSE_FRESH:
      return Reuse::kFresh;
    default:
      return Reuse::kUnspecified;
  }
}

SessionState ToValue(v1::SessionState state) {
  switch (state) {
    case v1::SESSION_STATE_LIVE:
      return SessionState::kLive;
    case v1::SESSION_STATE_DEAF:
      return SessionState::kDeaf;
    case v1::SESSION_STATE_GONE:
      return SessionState::kGone;
    default:
      return SessionState::kUnspecified;
  }
}

Holder ToValue(const v1::Holder& holder) {
  return {holder.session_id(), holder.program(), holder.instance(), holder.lease_count(),
          holder.quarantined()};
}

std::vector<Holder> ToValue(const google::protobuf::RepeatedPtrField<v1::Holder>& holders) {
  std::vector<Holder> values;
  for (const v1::Holder& holder : holders) values.push_back(ToValue(holder));
  return values;
}

LoadPhases ToValue(const v1::LoadPhases& phases) {
  return {FromProto(phases.open()), FromProto(phases.parse()), FromProto(phases.place()),
          FromProto(phases.read()), FromProto(phases.copy()),  FromProto(phases.publish()),
          FromProto(phases.total())};
}

// Far above any pool, far below an overflow.
constexpr uint64_t kLargestRange = uint64_t{1} << 46;

absl::StatusOr<LeasedDevice> ToDevice(const std::string& name, const std::string& backend,
                                      const std::string& uuid) {
  for (const MemoryKind kind : {MemoryKind::kHost, MemoryKind::kCuda}) {
    if (backend == MemoryKindName(kind)) return LeasedDevice{name, kind, uuid};
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, kUnsupportedBackend,
                   "this library maps memory of the backends host and cuda; " + name +
                       " is of the backend \"" + backend + "\"",
                   {{"backend", backend}});
}

Device DeviceOf(const v1::Device& device) {
  Device value;
  value.name = device.name();
  value.backend = device.backend();
  value.uuid = device.uuid();
  value.total_bytes = device.total_bytes();
  value.granule_bytes = device.granule_bytes();
  for (const v1::ArenaLedger& ledger : device.arenas())
    value.arenas.push_back(client::ToValue(ledger));
  const v1::BackendCounters& counters = device.backend_counters();
  value.backend_counters = {counters.segments_created(), counters.segments_destroyed(),
                            counters.bytes_created(), counters.bytes_destroyed(),
                            counters.exports()};
  value.foreign_bytes = device.foreign_bytes();
  value.lost = device.lost();
  value.cordoned = device.cordoned();
  return value;
}

}  // namespace

ArenaLedger ToValue(const v1::ArenaLedger& ledger) {
  ArenaLedger value;
  value.arena = ledger.arena();
  value.capacity = ledger.capacity();
  value.leased = ledger.leased();
  value.loading = ledger.loading();
  value.idle = ledger.idle();
  value.retained = ledger.retained();
  value.quarantined = ledger.quarantined();
  value.padding = ledger.padding();
  value.cached = ledger.cached();
  value.pooled = ledger.pooled();
  value.unbacked = ledger.unbacked();
  value.stranded = ledger.stranded();
  value.lost = ledger.lost();
  value.free = ledger.free();
  value.reserved = ledger.reserved();
  value.allocated = ledger.allocated();
  value.requested = ledger.requested();
  value.largest_free = ledger.largest_free();
  value.fragmentation_ratio = ledger.fragmentation_ratio();
  return value;
}

Model ToValue(const v1::Model& model) {
  Model value;
  value.name = model.name();
  value.revision = model.revision();
  value.state = ToValue(model.state());
  value.device = model.device();
  value.path = model.path();
  value.architecture_key = model.architecture_key();
  value.content_id = model.content_id();
  value.region_id = model.region_id();
  value.generation = model.generation();
  value.tensor_count = model.tensor_count();
  value.tensor_bytes = model.tensor_bytes();
  value.region_bytes = model.region_bytes();
  value.pinned = model.pinned();
  value.holders = ToValue(model.holders());
  if (model.has_expires_in()) value.expires_in = FromProto(model.expires_in());
  return value;
}

ModelEvent ToValue(const v1::WatchModelResponse& event) {
  ModelEvent value{ToValue(event.model()), std::nullopt, event.error()};
  if (event.has_progress()) {
    const v1::LoadProgress& progress = event.progress();
    value.progress = LoadProgress{progress.stage(), progress.bytes_done(), progress.bytes_total(),
                                  progress.bytes_per_second()};
  }
  return value;
}

TensorPlace ToValue(const v1::Tensor& tensor) {
  return {tensor.name(),
          tensor.dtype(),
          {tensor.shape().begin(), tensor.shape().end()},
          tensor.offset(),
          tensor.size()};
}

LoadResult ToValue(const v1::LoadModelResponse& response) {
  LoadResult value;
  value.model = ToValue(response.model());
  value.reuse = ToValue(response.reuse());
  value.bytes_copied = response.bytes_copied();
  value.segments_created = response.segments_created();
  value.segments_reused = response.segments_reused();
  value.phases = ToValue(response.phases());
  value.reclaimed = {response.reclaimed().begin(), response.reclaimed().end()};
  return value;
}

UnloadResult ToValue(const v1::UnloadModelResponse& response) {
  return {ToValue(response.state()), response.freed_bytes(), response.retained_bytes(),
          response.deferred_bytes(), ToValue(response.holders())};
}

DaemonStatus ToValue(const v1::GetStatusResponse& response) {
  DaemonStatus value;
  value.version = response.version();
  value.boot_id = response.boot_id();
  value.uptime = FromProto(response.uptime());
  for (const v1::Device& device : response.devices()) value.devices.push_back(DeviceOf(device));
  value.metrics_address = response.metrics_address();
  for (const v1::ModelRoot& root : response.model_roots()) {
    value.model_roots.push_back({root.name(), root.path()});
  }
  value.readiness.ready = response.readiness().ready();
  value.readiness.wanted = response.readiness().wanted();
  for (const v1::PendingModel& model : response.readiness().pending()) {
    value.readiness.pending.push_back({model.name(), model.path(), model.device(), model.loading(),
                                       model.reason(), model.message()});
  }
  return value;
}

Session ToValue(const v1::Session& session) {
  Session value;
  value.session_id = session.session_id();
  value.program = session.program();
  value.instance = session.instance();
  value.uid = session.uid();
  value.gid = session.gid();
  value.pid = session.pid();
  value.state = ToValue(session.state());
  value.lease_count = session.lease_count();
  value.share_count = session.share_count();
  value.quarantined_share_count = session.quarantined_share_count();
  value.silent_for = FromProto(session.silent_for());
  return value;
}

absl::StatusOr<LeasedDevice> ToDevice(const v1::WeightLease& granted) {
  return ToDevice(granted.device(), granted.backend(), granted.device_uuid());
}

absl::StatusOr<PoolSpec> ToValue(const v1::Pool& pool) {
  PoolSpec value{.pool_id = pool.pool_id(),
                 .device = {},
                 .range_bytes = pool.range_bytes(),
                 .segment_bytes = pool.segment_bytes(),
                 .ttl = FromProto(pool.ttl())};
  TENURE_CLIENT_ASSIGN_OR_RETURN(value.device,
                                 ToDevice(pool.device(), pool.backend(), pool.device_uuid()));
  if (value.segment_bytes == 0 || value.range_bytes % value.segment_bytes != 0 ||
      value.range_bytes > kLargestRange) {
    return ProtocolError("a pool cannot be of this size: " + std::to_string(value.range_bytes));
  }
  return value;
}

v1::BufferKind ToMessage(BufferKind kind) {
  switch (kind) {
    case BufferKind::kActivation:
      return v1::BUFFER_KIND_ACTIVATION;
    case BufferKind::kWorkspace:
      return v1::BUFFER_KIND_WORKSPACE;
    case BufferKind::kIo:
      return v1::BUFFER_KIND_IO;
  }
  return v1::BUFFER_KIND_UNSPECIFIED;
}

v1::LoadModelRequest ToMessage(const LoadRequest& request) {
  v1::LoadModelRequest message;
  message.set_name(request.name);
  message.set_path(request.path);
  message.set_device(request.device);
  message.set_pin(request.pin);
  if (const auto* ttl = std::get_if<std::chrono::nanoseconds>(&request.retention)) {
    ToProto(*ttl, message.mutable_retain_ttl());
  } else if (std::holds_alternative<RetainForever>(request.retention)) {
    message.set_retain_forever(true);
  }
  message.set_validate_only(request.validate_only);
  message.set_acquire(request.acquire);
  if (request.lease_ttl) ToProto(*request.lease_ttl, message.mutable_lease_ttl());
  return message;
}

}  // namespace tenure::client
