#include "client/cpp/daemon_plans.h"

#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/plan_call.h"

namespace tenure::client {

PlanCache::Planner DaemonPlans(std::weak_ptr<Connection> connection) {
  return [connection = std::move(connection)](
             const PlanInput& input, std::optional<Duration> budget, Deadline deadline,
             const std::stop_token& cancel) -> absl::StatusOr<MadePlan> {
    const std::shared_ptr<Connection> open = connection.lock();
    if (open == nullptr) {
      return MakeError(absl::StatusCode::kFailedPrecondition, kReleased, "the client is gone");
    }
    TENURE_CLIENT_ASSIGN_OR_RETURN(PlanReply reply,
                                   PlanBuffers(*open, input, {.budget = budget}, deadline, cancel));
    return MadePlan{.offsets = std::move(reply.offsets),
                    .height = reply.height,
                    .lower_bound = reply.lower_bound,
                    .proven = reply.proven};
  };
}

}  // namespace tenure::client
