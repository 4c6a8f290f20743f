#include <chrono>
#include <string>
#include <utility>

#include "core/model/model_table.h"
#include "server/translate.h"

namespace tenure {
namespace {

constexpr Duration kLeastLeaseTtl = std::chrono::milliseconds(100);
constexpr Duration kMostLeaseTtl = std::chrono::hours(24);
constexpr Duration kMostRetention = std::chrono::hours(24 * 36500);
constexpr size_t kMostRequestId = 64;

Status Refuse(std::string_view field, const std::string& what) {
  return Error(Reason::kInvalidRequest, std::string(field) + " " + what,
               {{"field", std::string(field)}});
}

// nullopt for what google.protobuf.Duration itself forbids, and for what is out of bounds.
std::optional<Duration> Within(const google::protobuf::Duration& proto, Duration least,
                               Duration most) {
  constexpr int32_t kNanosPerSecond = 1'000'000'000;
  if (proto.seconds() < 0 || proto.nanos() < 0 || proto.nanos() >= kNanosPerSecond)
    return std::nullopt;
  if (std::chrono::seconds(proto.seconds()) >
      std::chrono::duration_cast<std::chrono::seconds>(most)) {
    return std::nullopt;
  }
  const Duration duration = std::chrono::seconds(proto.seconds()) + Duration(proto.nanos());
  if (duration < least || duration > most) return std::nullopt;
  return duration;
}

}  // namespace

Status CheckName(const std::string& name) { return CheckModelName(name); }

Status CheckRequestId(std::string_view field, const std::string& request_id) {
  if (request_id.size() <= kMostRequestId) return absl::OkStatus();
  return Refuse(field, "has more than 64 characters: " + std::to_string(request_id.size()));
}

StatusOr<Duration> TimeoutFromProto(const google::protobuf::Duration& timeout) {
  const std::optional<Duration> duration = Within(timeout, Duration::zero(), kMostLeaseTtl);
  if (!duration.has_value()) return Refuse("timeout", "must be from 0 to 24 h");
  return *duration;
}

StatusOr<Duration> BudgetFromProto(const google::protobuf::Duration& budget) {
  const std::optional<Duration> duration = Within(budget, Duration::zero(), kMostLeaseTtl);
  if (!duration.has_value()) return Refuse("budget", "must be from 0 to 24 h");
  return *duration;
}

StatusOr<Duration> LeaseTtlFromProto(std::string_view field,
                                     const google::protobuf::Duration& ttl) {
  const std::optional<Duration> duration = Within(ttl, kLeastLeaseTtl, kMostLeaseTtl);
  if (!duration.has_value()) return Refuse(field, "must be from 100 ms to 24 h");
  return *duration;
}

StatusOr<Duration> WaitFromProto(bool set, const google::protobuf::Duration& wait) {
  if (!set) return Duration::zero();
  const std::optional<Duration> duration = Within(wait, Duration::zero(), kMostLeaseTtl);
  if (!duration.has_value()) return Refuse("wait", "must be from 0 to 24 h");
  return *duration;
}

StatusOr<BufferKind> FromProto(v1::BufferKind kind) {
  switch (kind) {
    case v1::BUFFER_KIND_UNSPECIFIED:
    case v1::BUFFER_KIND_ACTIVATION:
      return BufferKind::kActivation;
    case v1::BUFFER_KIND_WORKSPACE:
      return BufferKind::kWorkspace;
    case v1::BUFFER_KIND_IO:
      return BufferKind::kIo;
    default:
      return Refuse("kind", "is none that there is: " + std::to_string(kind));
  }
}

StatusOr<BufferSpec> FromProto(const v1::BufferSpec& spec) {
  TENURE_ASSIGN_OR_RETURN(const BufferKind kind, FromProto(spec.kind()));
  return BufferSpec{.size = Bytes(spec.size()),
                    .alignment = spec.alignment() == 0 ? kBufferGranule : Bytes(spec.alignment()),
                    .kind = kind};
}

StatusOr<PoolRequest> FromProto(const v1::AcquireBuffersRequest& request, SessionId session) {
  TENURE_RETURN_IF_ERROR(CheckRequestId("request_id", request.request_id()));
  std::vector<BufferSpec> specs;
  for (const v1::BufferSpec& spec : request.buffers()) {
    TENURE_ASSIGN_OR_RETURN(specs.emplace_back(), FromProto(spec));
    specs.back().may_be_idle = request.may_be_idle();
  }
  TENURE_ASSIGN_OR_RETURN(const Duration wait, WaitFromProto(request.has_wait(), request.wait()));
  return PoolRequest{
      .session = session, .wanted = std::move(specs), .priority = request.priority(), .wait = wait};
}

StatusOr<PoolRequest> FromProto(const v1::GrowPoolRequest& request, SessionId session) {
  TENURE_RETURN_IF_ERROR(CheckRequestId("request_id", request.request_id()));
  TENURE_ASSIGN_OR_RETURN(const BufferKind kind, FromProto(request.kind()));
  TENURE_ASSIGN_OR_RETURN(const Duration wait, WaitFromProto(request.has_wait(), request.wait()));
  return PoolRequest{.session = session,
                     .wanted = SegmentsSpec{.kind = kind, .bytes = Bytes(request.bytes())},
                     .priority = request.priority(),
                     .wait = wait};
}

StatusOr<LoadRequest> FromProto(const v1::LoadModelRequest& request, SessionId session) {
  TENURE_RETURN_IF_ERROR(CheckName(request.name()));
  TENURE_RETURN_IF_ERROR(CheckRequestId("request_id", request.request_id()));
  LoadRequest load;
  load.session = session;
  load.name = request.name();
  load.path = request.path();
  load.device = request.device();
  load.pin = request.pin();
  load.request_id = request.request_id();
  load.acquire = request.acquire();
  if (request.has_lease_ttl()) {
    TENURE_ASSIGN_OR_RETURN(load.lease_ttl, LeaseTtlFromProto("lease_ttl", request.lease_ttl()));
  }
  switch (request.retention_case()) {
    case v1::LoadModelRequest::kRetainTtl: {
      load.retain_ttl = Within(request.retain_ttl(), Duration::zero(), kMostRetention);
      if (!load.retain_ttl.has_value()) return Refuse("retain_ttl", "must be from 0 to 100 years");
      break;
    }
    case v1::LoadModelRequest::kRetainForever:
      if (!request.retain_forever()) return Refuse("retain_forever", "can only be set to true");
      load.retain_ttl = kForever;
      break;
    case v1::LoadModelRequest::RETENTION_NOT_SET:
      break;
  }
  return load;
}

}  // namespace tenure
