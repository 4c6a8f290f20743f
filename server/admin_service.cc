#include "server/admin_service.h"

#include <utility>

#include "server/errors.h"
#include "server/translate.h"

namespace tenure {

AdminService::AdminService(const Store& store, const WantedModels& wanted,
                           const SessionRegistry& sessions, const Gate& gate, const Clock& clock,
                           std::string metrics_address)
    : store_(store),
      wanted_(wanted),
      sessions_(sessions),
      gate_(gate),
      clock_(clock),
      metrics_address_(std::move(metrics_address)),
      started_(clock.Now()) {}

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

}  // namespace tenure
