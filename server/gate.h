#pragma once

#include <atomic>
#include <grpcpp/server_context.h>
#include <string>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/store/load.h"
#include "server/config.h"
#include "server/session_registry.h"

namespace tenure {

// Metadata that every reply carries, and that every call of a Session must.
inline constexpr char kBootIdKey[] = "tenure-boot-id";
inline constexpr char kSessionTokenKey[] = "tenure-session-token";

// What every call passes first: who calls, by when it must end, and whether the daemon still takes
// it. Thread-safe.
class Gate {
 public:
  // All references outlive the gate.
  Gate(std::string boot_id, const SessionRegistry& sessions, const Clock& clock);

  // Puts the boot id into the reply, whatever its status will be. To be called once, before
  // anything else.
  void Stamp(grpc::ServerContext& context) const;

  // Stamps, and finds the Session that calls. STALE_INCARNATION if the call means another boot of
  // the daemon, SESSION_UNKNOWN if its token is missing or worth nothing.
  StatusOr<SessionId> Admit(grpc::ServerContext& context) const;

  // As Admit, for what is operators' to do: PERMISSION_DENIED for a Session whose process runs
  // neither as root or the daemon's own user nor as anybody of whom SetAdmin told.
  StatusOr<SessionId> AdmitOperator(grpc::ServerContext& context) const;
  // Whether the Session may take models offline.
  Status CheckUnload(SessionId session) const;
  void SetAdmin(const AdminConfig& admin);

  // The call's own deadline, or `max_call` from now if it has none, and whether the caller has
  // left. The result uses `context`.
  CallLimits LimitsOf(const grpc::ServerContext& context, Duration max_call) const;

  // No load is taken any more, and no model leased.
  void CloseForLoads() { closed_for_loads_.store(true); }
  // SHUTTING_DOWN once it is closed.
  Status CheckOpenForLoads() const;
  Status CheckOpenForLeases() const;

  const std::string& boot_id() const { return boot_id_; }

 private:
  Status CheckOperator(SessionId session) const;
  AdminConfig admin_config() const;

  const std::string boot_id_;
  const SessionRegistry& sessions_;
  const Clock& clock_;
  std::atomic<bool> closed_for_loads_ = false;
  mutable Mutex mutex_;
  AdminConfig admin_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenure
