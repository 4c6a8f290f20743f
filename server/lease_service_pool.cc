#include <chrono>
#include <optional>
#include <spdlog/spdlog.h>
#include <string>

#include "server/errors.h"
#include "server/lease_service.h"
#include "server/printable.h"
#include "server/translate.h"

namespace tenure {
namespace {

constexpr Duration kMaxAcquireCall = std::chrono::minutes(15);
constexpr int kMostReleased = 10'000;

Status CheckCount(std::string_view what, int count) {
  if (count <= kMostReleased) return absl::OkStatus();
  return Error(Reason::kInvalidRequest, "at most " + std::to_string(kMostReleased) + " " +
                                            std::string(what) + " go in one call, not " +
                                            std::to_string(count));
}

}  // namespace

grpc::Status LeaseService::AcquireBuffers(grpc::ServerContext* context,
                                          const v1::AcquireBuffersRequest* request,
                                          v1::AcquireBuffersResponse* response) {
  return ToGrpcStatus(AcquireAll(*context, *request, *response));
}

grpc::Status LeaseService::ReleaseBuffers(grpc::ServerContext* context,
                                          const v1::ReleaseBuffersRequest* request,
                                          v1::ReleaseBuffersResponse* response) {
  return ToGrpcStatus(ReleaseAll(*context, *request, *response));
}

grpc::Status LeaseService::GrowPool(grpc::ServerContext* context,
                                    const v1::GrowPoolRequest* request,
                                    v1::GrowPoolResponse* response) {
  return ToGrpcStatus(Grow(*context, *request, *response));
}

grpc::Status LeaseService::ShrinkPool(grpc::ServerContext* context,
                                      const v1::ShrinkPoolRequest* request,
                                      v1::ShrinkPoolResponse*) {
  return ToGrpcStatus(Shrink(*context, *request));
}

StatusOr<PoolGrant> LeaseService::AcquirePool(const grpc::ServerContext& context,
                                              std::string_view method, const PoolRequest& request,
                                              const std::string& device,
                                              const std::string& request_id) {
  const Instant asked = clock_.Now();
  StatusOr<PoolGrant> grant = TryAcquirePool(context, request, device, request_id);
  if (grant.ok()) return grant;
  spdlog::warn(
      "buffers refused method={} device={} bytes={} seconds={:.6f} session={} request_id={} "
      "reason={} message={}",
      method, Printable(device), RequestedBytes(request).count(),
      std::chrono::duration<double>(clock_.Now() - asked).count(), request.session.value(),
      Printable(request_id), DetailOf(grant.status()).value_or(ErrorDetail{}).reason,
      std::string(grant.status().message()));
  return refusals_.Note(method, request.session, grant.status(), &request);
}

StatusOr<PoolGrant> LeaseService::TryAcquirePool(const grpc::ServerContext& context,
                                                 const PoolRequest& request,
                                                 const std::string& device,
                                                 const std::string& request_id) {
  const std::optional<Limit::Place> place = waits_.TryEnter();
  if (!place.has_value()) {
    return Error(Reason::kLimit,
                 "the daemon serves no more than " + std::to_string(waits_.most()) +
                     " requests for runtime memory at a time",
                 {{"limit", std::to_string(waits_.most())}});
  }
  return store_.AcquirePool(request, device, request_id, gate_.LimitsOf(context, kMaxAcquireCall));
}

Status LeaseService::AcquireAll(grpc::ServerContext& context,
                                const v1::AcquireBuffersRequest& request,
                                v1::AcquireBuffersResponse& response) {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, gate_.Admit(context));
  TENURE_ASSIGN_OR_RETURN(const PoolRequest wanted, FromProto(request, session));
  TENURE_ASSIGN_OR_RETURN(
      const PoolGrant grant,
      AcquirePool(context, "AcquireBuffers", wanted, request.device(), request.request_id()));
  *response.mutable_pool() = ToProto(grant.pool);
  for (const Buffer& buffer : grant.buffers) *response.add_buffers() = ToProto(buffer);
  return absl::OkStatus();
}

Status LeaseService::ReleaseAll(grpc::ServerContext& context,
                                const v1::ReleaseBuffersRequest& request,
                                v1::ReleaseBuffersResponse& response) {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, gate_.Admit(context));
  switch (request.which_case()) {
    case v1::ReleaseBuffersRequest::kBuffers:
      break;
    case v1::ReleaseBuffersRequest::kRequestId:
      if (request.request_id().empty()) break;
      TENURE_RETURN_IF_ERROR(CheckRequestId("request_id", request.request_id()));
      return store_.ReleasePoolRequest(session, request.request_id());
    case v1::ReleaseBuffersRequest::WHICH_NOT_SET:
      return Error(Reason::kInvalidRequest, "the request names no buffers");
  }
  if (!request.has_buffers()) return Error(Reason::kInvalidRequest, "request_id is empty");
  TENURE_RETURN_IF_ERROR(CheckCount("buffers", request.buffers().buffer_ids_size()));
  for (const uint64_t id : request.buffers().buffer_ids()) {
    const Status released = store_.ReleaseBuffer(session, BufferId(id));
    if (released.ok()) continue;
    v1::UnreleasedBuffer& unreleased = *response.add_unreleased();
    unreleased.set_buffer_id(id);
    unreleased.set_reason(DetailOf(released).value_or(ErrorDetail{}).reason);
  }
  return absl::OkStatus();
}

Status LeaseService::Grow(grpc::ServerContext& context, const v1::GrowPoolRequest& request,
                          v1::GrowPoolResponse& response) {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, gate_.Admit(context));
  TENURE_ASSIGN_OR_RETURN(const PoolRequest wanted, FromProto(request, session));
  TENURE_ASSIGN_OR_RETURN(
      const PoolGrant grant,
      AcquirePool(context, "GrowPool", wanted, request.device(), request.request_id()));
  *response.mutable_pool() = ToProto(grant.pool);
  if (!grant.segments.empty()) response.set_offset(grant.segments.front().count());
  response.set_bytes((grant.pool.segment_size * grant.segments.size()).count());
  return absl::OkStatus();
}

Status LeaseService::Shrink(grpc::ServerContext& context, const v1::ShrinkPoolRequest& request) {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, gate_.Admit(context));
  TENURE_RETURN_IF_ERROR(CheckCount("segments", request.offsets_size()));
  std::vector<Bytes> offsets;
  for (const uint64_t offset : request.offsets()) offsets.emplace_back(offset);
  return store_.ShrinkPool(session, PoolId(request.pool_id()), offsets);
}

}  // namespace tenure
