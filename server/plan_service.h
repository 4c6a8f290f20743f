#pragma once

#include <tenure/v1/plan.grpc.pb.h>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "server/gate.h"
#include "server/planner.h"

namespace tenure {

// PlanService of proto/tenure/v1/plan.proto: checks, calls the Planner, translates. Thread-safe.
class PlanService final : public v1::PlanService::Service {
 public:
  // Both outlive the service.
  PlanService(Planner& planner, const Gate& gate) : planner_(planner), gate_(gate) {}

  grpc::Status PlanBuffers(grpc::ServerContext* context, const v1::PlanBuffersRequest* request,
                           v1::PlanBuffersResponse* response) override;

 private:
  Status PlanFor(grpc::ServerContext& context, const v1::PlanBuffersRequest& request,
                 v1::PlanBuffersResponse& response);
  StatusOr<PlanAnswer> TryPlan(const grpc::ServerContext& context,
                               const v1::PlanBuffersRequest& request);

  Planner& planner_;
  const Gate& gate_;
};

}  // namespace tenure
