#include "server/admin_service.h"

#include <absl/strings/numbers.h>
#include <string_view>
#include <utility>
#include <vector>

#include "server/errors.h"
#include "server/translate.h"

namespace tenure {
namespace {

// Each may wait for a file system.
constexpr int kMaxFits = 16;
// Each holds a thread while clients let go.
constexpr int kMaxDrains = 16;
// Each holds a thread.
constexpr int kMaxWaiting = 32;

std::string ValueOf(const Refusal& refusal, std::string_view wanted) {
  for (const auto& [name, value] : refusal.values) {
    if (name == wanted) return value;
  }
  return "";
}

}  // namespace

AdminService::AdminService(Store& store, const WantedModels& wanted,
                           const SessionRegistry& sessions, const RefusalLog& refusals,
                           const Gate& gate, const MapMaker& maps, const Clock& clock,
                           std::string metrics_address, Control& control)
    : store_(store),
      wanted_(wanted),
      sessions_(sessions),
      refusals_(refusals),
      gate_(gate),
      clock_(clock),
      metrics_address_(std::move(metrics_address)),
      started_(clock.Now()),
      fits_(kMaxFits),
      waiting_(kMaxWaiting),
      maps_(maps, clock),
      control_(control),
      drains_(kMaxDrains) {}

grpc::Status AdminService::GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest*,
                                     v1::GetStatusResponse* response) {
  gate_.Stamp(*context);
  response->set_version(TENURE_VERSION);
  response->set_boot_id(gate_.boot_id());
  *response->mutable_uptime() = ToProto(clock_.Now() - started_);
  for (size_t i = 0; i < store_.devices().size(); ++i) {
    const DeviceStore& weights = *store_.devices()[i];
    *response->add_devices() = ToProto(weights.device_info(), weights.TakeSnapshot(),
                                       store_.runtimes()[i]->TakeSnapshot());
  }
  response->set_metrics_address(metrics_address_);
  for (const ModelRoot& root : store_.model_roots()) {
    v1::ModelRoot* const proto = response->add_model_roots();
    proto->set_name(root.name);
    proto->set_path(root.path);
  }
  *response->mutable_readiness() = ToProto(wanted_.GetProgress());
  return grpc::Status::OK;
}

grpc::Status AdminService::ListSessions(grpc::ServerContext* context,
                                        const v1::ListSessionsRequest*,
                                        v1::ListSessionsResponse* response) {
  const Status admitted = gate_.Admit(*context).status();
  if (!admitted.ok()) return ToGrpcStatus(admitted);
  for (const SessionView& session : sessions_.Sessions()) {
    *response->add_sessions() = ToProto(session, store_.UseBy(session.id));
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::ExplainRefusal(grpc::ServerContext* context,
                                          const v1::ExplainRefusalRequest* request,
                                          v1::ExplainRefusalResponse* response) {
  return ToGrpcStatus(Explain(*context, *request, *response));
}

Status AdminService::Explain(grpc::ServerContext& context, const v1::ExplainRefusalRequest& request,
                             v1::ExplainRefusalResponse& response) {
  TENURE_RETURN_IF_ERROR(gate_.Admit(context).status());
  TENURE_ASSIGN_OR_RETURN(const Refusal refusal, refusals_.Find(RefusalId(request.refusal_id())));
  *response.mutable_refusal() = ToProto(refusal, clock_.Now());
  if (const std::optional<DeviceFit> now = FitAnew(refusal)) {
    *response.mutable_now() = ToProto(*now);
  }
  return absl::OkStatus();
}

std::optional<DeviceFit> AdminService::FitAnew(const Refusal& refusal) {
  const std::string device = ValueOf(refusal, "device");
  uint64_t needed = 0;
  if (device.empty() || !absl::SimpleAtoi(ValueOf(refusal, "needed_bytes"), &needed)) {
    return std::nullopt;
  }
  const bool weights = refusal.method == "LoadModel";
  if (!weights && !refusal.asked.has_value()) return std::nullopt;
  const StatusOr<std::vector<DeviceFit>> fits =
      weights ? store_.FitWeights(Bytes(needed), device) : store_.FitPool(*refusal.asked, device);
  if (!fits.ok()) return std::nullopt;
  return fits->front();
}

grpc::Status AdminService::Fit(grpc::ServerContext* context, const v1::FitRequest* request,
                               v1::FitResponse* response) {
  return ToGrpcStatus(FitAll(*context, *request, *response));
}

Status AdminService::FitAll(grpc::ServerContext& context, const v1::FitRequest& request,
                            v1::FitResponse& response) {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, gate_.Admit(context));
  StatusOr<std::vector<DeviceFit>> fits;
  switch (request.need_case()) {
    case v1::FitRequest::kPath: {
      const std::optional<Limit::Place> place = fits_.TryEnter();
      if (!place.has_value()) {
        return Error(Reason::kLimit, "the daemon looks at no more than " +
                                         std::to_string(fits_.most()) + " models at a time");
      }
      fits = store_.FitModel(request.path(), request.device());
      break;
    }
    case v1::FitRequest::kBuffer: {
      TENURE_ASSIGN_OR_RETURN(const BufferSpec spec, FromProto(request.buffer()));
      fits = store_.FitPool({.session = session, .wanted = std::vector<BufferSpec>{spec}},
                            request.device());
      break;
    }
    case v1::FitRequest::NEED_NOT_SET:
      fits = Error(Reason::kInvalidRequest, "the request names neither a path nor a buffer");
      break;
  }
  TENURE_RETURN_IF_ERROR(fits.status());
  for (const DeviceFit& fit : *fits) *response.add_devices() = ToProto(fit);
  return absl::OkStatus();
}

grpc::Status AdminService::GetMemoryMap(grpc::ServerContext* context,
                                        const v1::GetMemoryMapRequest* request,
                                        v1::GetMemoryMapResponse* response) {
  const Status admitted = gate_.Admit(*context).status();
  if (!admitted.ok()) return ToGrpcStatus(admitted);
  StatusOr<v1::GetMemoryMapResponse> part = maps_.Get(*request);
  if (!part.ok()) return ToGrpcStatus(part.status());
  *response = *std::move(part);
  return grpc::Status::OK;
}

}  // namespace tenure
