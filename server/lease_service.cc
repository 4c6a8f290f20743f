#include "server/lease_service.h"

#include <optional>
#include <spdlog/spdlog.h>
#include <string>

#include "server/errors.h"
#include "server/printable.h"
#include "server/translate.h"

namespace tenure {
namespace {

constexpr int kMaxRenewals = 1000;
// Each waiting call holds a thread.
constexpr int kMaxWaits = 256;

Status CheckPresent(std::string_view field, const std::string& request_id) {
  if (!request_id.empty()) return CheckRequestId(field, request_id);
  return Error(Reason::kInvalidRequest, std::string(field) + " is empty");
}

}  // namespace

LeaseService::LeaseService(Store& store, RefusalLog& refusals, const Gate& gate, const Clock& clock)
    : store_(store), refusals_(refusals), gate_(gate), clock_(clock), waits_(kMaxWaits) {}

grpc::Status LeaseService::AcquireWeights(grpc::ServerContext* context,
                                          const v1::AcquireWeightsRequest* request,
                                          v1::AcquireWeightsResponse* response) {
  return ToGrpcStatus(Acquire(*context, *request, *response));
}

Status LeaseService::Acquire(grpc::ServerContext& context, const v1::AcquireWeightsRequest& request,
                             v1::AcquireWeightsResponse& response) {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, gate_.Admit(context));
  const Status status = AcquireFor(session, context, request, response);
  if (!status.ok()) {
    spdlog::warn("lease refused name={} device={} session={} request_id={} reason={} message={}",
                 Printable(request.name()), Printable(request.device()), session.value(),
                 Printable(request.request_id()), DetailOf(status).value_or(ErrorDetail{}).reason,
                 std::string(status.message()));
  }
  return refusals_.Note("AcquireWeights", session, status);
}

Status LeaseService::AcquireFor(SessionId session, grpc::ServerContext& context,
                                const v1::AcquireWeightsRequest& request,
                                v1::AcquireWeightsResponse& response) {
  TENURE_RETURN_IF_ERROR(gate_.CheckOpenForLeases());
  TENURE_RETURN_IF_ERROR(CheckName(request.name()));
  TENURE_RETURN_IF_ERROR(CheckRequestId("request_id", request.request_id()));
  std::optional<Duration> ttl;
  if (request.has_ttl()) {
    TENURE_ASSIGN_OR_RETURN(ttl, LeaseTtlFromProto("ttl", request.ttl()));
  }
  TENURE_ASSIGN_OR_RETURN(
      const GrantedLease lease,
      store_.Acquire(session, request.name(), request.device(), ttl, request.request_id()));
  // A call with a request id may be repeated, and is withdrawn by that id: its lease is not ours to
  // end.
  if (request.request_id().empty() && context.IsCancelled()) {
    store_.Release(session, lease.id).IgnoreError();
    return Error(Reason::kCancelled, "the caller left before the lease could be handed over");
  }
  *response.mutable_lease() = ToProto(lease);
  return absl::OkStatus();
}

grpc::Status LeaseService::RenewLeases(grpc::ServerContext* context,
                                       const v1::RenewLeasesRequest* request,
                                       v1::RenewLeasesResponse* response) {
  return ToGrpcStatus(Renew(*context, *request, *response));
}

Status LeaseService::Renew(grpc::ServerContext& context, const v1::RenewLeasesRequest& request,
                           v1::RenewLeasesResponse& response) {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, gate_.Admit(context));
  if (request.lease_ids_size() > kMaxRenewals) {
    return Error(Reason::kInvalidRequest, "at most 1000 leases can be renewed at a time, not " +
                                              std::to_string(request.lease_ids_size()));
  }
  for (const uint64_t id : request.lease_ids()) {
    const DeviceStore::Renewal renewal = store_.Renew(session, LeaseId(id));
    *response.add_renewals() = ToProto(LeaseId(id), renewal, clock_.Now());
  }
  return absl::OkStatus();
}

grpc::Status LeaseService::ReleaseLease(grpc::ServerContext* context,
                                        const v1::ReleaseLeaseRequest* request,
                                        v1::ReleaseLeaseResponse*) {
  return ToGrpcStatus(Release(*context, *request));
}

Status LeaseService::Release(grpc::ServerContext& context, const v1::ReleaseLeaseRequest& request) {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, gate_.Admit(context));
  switch (request.which_case()) {
    case v1::ReleaseLeaseRequest::kLeaseId:
      return store_.Release(session, LeaseId(request.lease_id()));
    case v1::ReleaseLeaseRequest::kLoadRequestId:
      TENURE_RETURN_IF_ERROR(CheckPresent("load_request_id", request.load_request_id()));
      return store_.ReleaseLoadRequest(session, request.load_request_id());
    case v1::ReleaseLeaseRequest::kAcquireRequestId:
      TENURE_RETURN_IF_ERROR(CheckPresent("acquire_request_id", request.acquire_request_id()));
      return store_.ReleaseAcquireRequest(session, request.acquire_request_id());
    case v1::ReleaseLeaseRequest::WHICH_NOT_SET:
      break;
  }
  return Error(Reason::kInvalidRequest, "the request names no lease");
}

}  // namespace tenure
