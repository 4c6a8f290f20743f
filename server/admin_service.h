#pragma once

#include <optional>
#include <string>
#include <tenure/v1/admin.grpc.pb.h>

#include "core/base/clock.h"
#include "core/store/store.h"
#include "server/control.h"
#include "server/gate.h"
#include "server/limit.h"
#include "server/map_parts.h"
#include "server/refusal_log.h"
#include "server/session_registry.h"
#include "server/wanted_models.h"

namespace tenure {

// AdminService of proto/tenure/v1/admin.proto. Thread-safe.
class AdminService final : public v1::AdminService::Service {
 public:
  // All references outlive the service; the daemon counts as started now. `metrics_address` is
  // where /metrics is really served, empty if it is not.
  AdminService(Store& store, const WantedModels& wanted, const SessionRegistry& sessions,
               const RefusalLog& refusals, const Gate& gate, const MapMaker& maps,
               const Clock& clock, std::string metrics_address, Control& control);

  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;
  grpc::Status ListSessions(grpc::ServerContext* context, const v1::ListSessionsRequest* request,
                            v1::ListSessionsResponse* response) override;
  grpc::Status ExplainRefusal(grpc::ServerContext* context,
                              const v1::ExplainRefusalRequest* request,
                              v1::ExplainRefusalResponse* response) override;
  grpc::Status Fit(grpc::ServerContext* context, const v1::FitRequest* request,
                   v1::FitResponse* response) override;
  grpc::Status ListEvents(grpc::ServerContext* context, const v1::ListEventsRequest* request,
                          v1::ListEventsResponse* response) override;
  grpc::Status GetMemoryMap(grpc::ServerContext* context, const v1::GetMemoryMapRequest* request,
                            v1::GetMemoryMapResponse* response) override;

  // admin_service_reports.cc
  grpc::Status GetSummary(grpc::ServerContext* context, const v1::GetSummaryRequest* request,
                          v1::GetSummaryResponse* response) override;
  grpc::Status ListLeaks(grpc::ServerContext* context, const v1::ListLeaksRequest* request,
                         v1::ListLeaksResponse* response) override;

  // admin_service_control.cc: for operators alone.
  grpc::Status Cordon(grpc::ServerContext* context, const v1::CordonRequest* request,
                      v1::CordonResponse* response) override;
  grpc::Status Uncordon(grpc::ServerContext* context, const v1::UncordonRequest* request,
                        v1::UncordonResponse* response) override;
  grpc::Status Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                     v1::DrainResponse* response) override;
  grpc::Status Trim(grpc::ServerContext* context, const v1::TrimRequest* request,
                    v1::TrimResponse* response) override;
  grpc::Status Reload(grpc::ServerContext* context, const v1::ReloadRequest* request,
                      v1::ReloadResponse* response) override;

 private:
  Status Explain(grpc::ServerContext& context, const v1::ExplainRefusalRequest& request,
                 v1::ExplainRefusalResponse& response);
  // What would come of the same call now, if that can be told.
  std::optional<DeviceFit> FitAnew(const Refusal& refusal);
  Status Events(grpc::ServerContext& context, const v1::ListEventsRequest& request,
                v1::ListEventsResponse& response);
  Status FitAll(grpc::ServerContext& context, const v1::FitRequest& request,
                v1::FitResponse& response);

  Store& store_;
  const WantedModels& wanted_;
  const SessionRegistry& sessions_;
  const RefusalLog& refusals_;
  const Gate& gate_;
  const Clock& clock_;
  const std::string metrics_address_;
  const Instant started_;
  Limit fits_;     // calls that read files
  Limit waiting_;  // calls that wait for events
  MapParts maps_;
  Control& control_;
  Limit drains_;  // calls that wait for clients
};

}  // namespace tenure
