#pragma once

#include <string>
#include <tenure/v1/admin.grpc.pb.h>

#include "core/base/clock.h"
#include "core/store/store.h"
#include "server/gate.h"
#include "server/session_registry.h"
#include "server/wanted_models.h"

namespace tenure {

// AdminService of proto/tenure/v1/admin.proto. Thread-safe.
class AdminService final : public v1::AdminService::Service {
 public:
  // All references outlive the service; the daemon counts as started now. `metrics_address` is
  // where /metrics is really served, empty if it is not.
  AdminService(const Store& store, const WantedModels& wanted, const SessionRegistry& sessions,
               const Gate& gate, const Clock& clock, std::string metrics_address);

  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;
  grpc::Status ListSessions(grpc::ServerContext* context, const v1::ListSessionsRequest* request,
                            v1::ListSessionsResponse* response) override;

 private:
  const Store& store_;
  const WantedModels& wanted_;
  const SessionRegistry& sessions_;
  const Gate& gate_;
  const Clock& clock_;
  const std::string metrics_address_;
  const Instant started_;
};

}  // namespace tenure
