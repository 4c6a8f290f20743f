#include <algorithm>
#include <chrono>

#include "server/admin_service.h"
#include "server/errors.h"
#include "server/event_messages.h"
#include "server/translate.h"

namespace tenure {
namespace {

constexpr uint32_t kMostEvents = 1000;
constexpr Duration kLongestWait = std::chrono::seconds(30);
// How often a waiting call looks whether its caller is still there.
constexpr Duration kLookAround = std::chrono::milliseconds(100);

}  // namespace

grpc::Status AdminService::ListEvents(grpc::ServerContext* context,
                                      const v1::ListEventsRequest* request,
                                      v1::ListEventsResponse* response) {
  return ToGrpcStatus(Events(*context, *request, *response));
}

Status AdminService::Events(grpc::ServerContext& context, const v1::ListEventsRequest& request,
                            v1::ListEventsResponse& response) {
  TENURE_RETURN_IF_ERROR(gate_.Admit(context).status());
  const EventLog& log = store_.event_log();
  if (request.has_wait() && log.last() <= request.after()) {
    TENURE_ASSIGN_OR_RETURN(const Duration wait, WaitFromProto(true, request.wait()));
    const std::optional<Limit::Place> place = waiting_.TryEnter();
    if (!place.has_value()) {
      return Error(Reason::kLimit, "no more than " + std::to_string(waiting_.most()) +
                                       " calls wait for events at a time");
    }
    const Instant until = After(clock_.Now(), std::min(wait, kLongestWait));
    const CallLimits limits = gate_.LimitsOf(context, kLongestWait);
    while (log.last() <= request.after() && clock_.Now() < until &&
           limits.Check(clock_.Now()).ok() && gate_.CheckOpenForLoads().ok()) {
      log.AwaitAfter(request.after(), std::min(kLookAround, until - clock_.Now()));
    }
  }
  const uint32_t most = request.limit() == 0 ? kMostEvents : std::min(request.limit(), kMostEvents);
  *response.mutable_events() = EventMessages(log, sessions_, clock_, request.after(), most);
  response.set_last(log.last());
  return absl::OkStatus();
}

}  // namespace tenure
