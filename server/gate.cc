#include "server/gate.h"

#include <algorithm>
#include <grpc/support/time.h>
#include <iterator>
#include <optional>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tenure {
namespace {

// Empty if the call has no such metadata, or several.
std::string_view MetadataOf(const grpc::ServerContext& context, const char* key) {
  const auto [begin, end] = context.client_metadata().equal_range(key);
  if (begin == end || std::next(begin) != end) return {};
  return {begin->second.data(), begin->second.size()};
}

// How long the caller still waits, at most a year; nullopt if it did not say. gRPC keeps deadlines
// on a clock that may be set, so only the span counts.
std::optional<Duration> TimeLeft(const grpc::ServerContext& context) {
  const gpr_timespec deadline = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0) return std::nullopt;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
  constexpr int64_t kYear = int64_t{365} * 24 * 3600;
  return std::chrono::seconds(std::min(left.tv_sec, kYear)) +
         std::chrono::nanoseconds(left.tv_nsec);
}

}  // namespace

Gate::Gate(std::string boot_id, const SessionRegistry& sessions, const Clock& clock)
    : boot_id_(std::move(boot_id)), sessions_(sessions), clock_(clock) {}

void Gate::Stamp(grpc::ServerContext& context) const {
  context.AddInitialMetadata(kBootIdKey, boot_id_);
}

StatusOr<SessionId> Gate::Admit(grpc::ServerContext& context) const {
  Stamp(context);
  const std::string_view boot_id = MetadataOf(context, kBootIdKey);
  if (!boot_id.empty() && boot_id != boot_id_) {
    return Error(Reason::kStaleIncarnation, "the daemon was restarted: its boot id is " + boot_id_,
                 {{"boot_id", boot_id_}});
  }
  const std::string_view token = MetadataOf(context, kSessionTokenKey);
  const std::optional<SessionId> session = sessions_.Authenticate(token);
  if (boot_id.empty() || !session.has_value()) {
    return Error(
        Reason::kSessionUnknown,
        "the call carries no boot id and token of a session: open one on the handle socket");
  }
  return *session;
}

StatusOr<SessionId> Gate::AdmitOperator(grpc::ServerContext& context) const {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, Admit(context));
  TENURE_RETURN_IF_ERROR(CheckOperator(session));
  return session;
}

Status Gate::CheckOperator(SessionId session) const {
  const std::optional<SessionView> view = sessions_.Find(session);
  if (!view.has_value()) return Error(Reason::kSessionUnknown, "the session has ended");
  const SessionIdentity& who = view->identity;
  if (who.uid == 0 || who.uid == geteuid()) return absl::OkStatus();
  const AdminConfig admin = admin_config();
  const auto listed = [](const std::vector<uint32_t>& ids, uint32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  if (listed(admin.uids, who.uid) || listed(admin.gids, who.gid) ||
      std::any_of(who.groups.begin(), who.groups.end(),
                  [&](gid_t group) { return listed(admin.gids, group); })) {
    return absl::OkStatus();
  }
  return Error(Reason::kPermissionDenied,
               "this is for root, the daemon's own user and whom its configuration names under"
               " `admin`, not for uid " +
                   std::to_string(who.uid) + ", gid " + std::to_string(who.gid),
               {{"uid", std::to_string(who.uid)}, {"gid", std::to_string(who.gid)}});
}

Status Gate::CheckUnload(SessionId session) const {
  return admin_config().unload ? CheckOperator(session) : absl::OkStatus();
}

AdminConfig Gate::admin_config() const {
  const MutexLock lock(mutex_);
  return admin_;
}

void Gate::SetAdmin(const AdminConfig& admin) {
  const MutexLock lock(mutex_);
  admin_ = admin;
}

CallLimits Gate::LimitsOf(const grpc::ServerContext& context, Duration max_call) const {
  CallLimits limits;
  limits.deadline = After(clock_.Now(), TimeLeft(context).value_or(max_call));
  limits.cancelled = [&context] { return context.IsCancelled(); };
  return limits;
}

Status Gate::CheckOpenForLoads() const {
  if (!closed_for_loads_.load()) return absl::OkStatus();
  return Error(Reason::kShuttingDown, "the daemon is stopping and takes no loads any more");
}

Status Gate::CheckOpenForLeases() const {
  if (!closed_for_loads_.load()) return absl::OkStatus();
  return Error(Reason::kShuttingDown, "the daemon is stopping and grants no leases any more");
}

}  // namespace tenure
