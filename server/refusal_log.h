#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/store/pool_grant.h"
#include "server/session_registry.h"

namespace tenure {

// A call that was refused for want of room.
struct Refusal {
  RefusalId id;
  Instant at;
  std::string method;  // "LoadModel"
  SessionId session;
  std::string program;  // of the Session, as all that follows from when it was refused
  std::string instance;
  std::string reason;
  std::string message;
  ErrorValues values;
  std::optional<PoolRequest> asked;  // of runtime memory, unless it asked for very many Buffers
};

// The last refusals, so that what is read in somebody's log can be asked about later. Ids count up
// from 1. Thread-safe.
class RefusalLog {
 public:
  static constexpr size_t kKept = 1000;

  // All outlive the log. `on_refusal` is called with each that was kept, and must not wait.
  RefusalLog(const SessionRegistry& sessions, const Clock& clock,
             std::function<void(RefusalId)> on_refusal = {})
      : sessions_(sessions), clock_(clock), on_refusal_(std::move(on_refusal)) {}

  // What a call of the Session came to. A refusal for want of room (RESOURCE_EXHAUSTED) is kept and
  // gets its id as the value `refusal_id`; everything else is returned as it is.
  Status Note(std::string_view method, SessionId session, const Status& status,
              const PoolRequest* asked = nullptr);

  // The last one if `id` is not valid. REFUSAL_NOT_FOUND if there never was one of this id, or too
  // many came after it.
  StatusOr<Refusal> Find(RefusalId id) const;

 private:
  const SessionRegistry& sessions_;
  const Clock& clock_;
  const std::function<void(RefusalId)> on_refusal_;

  mutable Mutex mutex_;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Refusal> kept_ ABSL_GUARDED_BY(mutex_);  // in the order of ids, without a gap
};

}  // namespace tenure
