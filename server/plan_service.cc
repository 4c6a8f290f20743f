#include "server/plan_service.h"

#include <chrono>
#include <spdlog/spdlog.h>
#include <string>
#include <utility>

#include "server/errors.h"
#include "server/printable.h"
#include "server/translate_plans.h"

namespace tenure {
namespace {

constexpr Duration kMaxPlanCall = std::chrono::minutes(15);
// Of a message, in the log: ids are as long as callers like.
constexpr size_t kMostLogged = 512;

}  // namespace

grpc::Status PlanService::PlanBuffers(grpc::ServerContext* context,
                                      const v1::PlanBuffersRequest* request,
                                      v1::PlanBuffersResponse* response) {
  return ToGrpcStatus(PlanFor(*context, *request, *response));
}

Status PlanService::PlanFor(grpc::ServerContext& context, const v1::PlanBuffersRequest& request,
                            v1::PlanBuffersResponse& response) {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, gate_.Admit(context));
  const StatusOr<PlanAnswer> answer = TryPlan(context, request);
  planner_.Count(answer);
  if (!answer.ok()) {
    spdlog::warn("plan refused session={} buffers={} reason={} message={}", session.value(),
                 request.ids_size(), DetailOf(answer.status()).value_or(ErrorDetail{}).reason,
                 Shorten(Printable(std::string(answer.status().message())), kMostLogged));
    return answer.status();
  }
  response = ToProto(*answer);
  return absl::OkStatus();
}

StatusOr<PlanAnswer> PlanService::TryPlan(const grpc::ServerContext& context,
                                          const v1::PlanBuffersRequest& request) {
  TENURE_ASSIGN_OR_RETURN(PlanInput input, FromProto(request));
  TENURE_ASSIGN_OR_RETURN(const PlanWish wish, PlanWishFromProto(request));
  return planner_.PlanFor(std::move(input), wish, gate_.LimitsOf(context, kMaxPlanCall));
}

}  // namespace tenure
