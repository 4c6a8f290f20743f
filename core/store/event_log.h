#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/arena/ledger.h"
#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/mutex.h"

namespace tenure {

// What happens to memory and to who holds it.
enum class EventKind {
  kSessionOpened,
  kSessionEnded,
  kLoaded,      // a model is online
  kLoadFailed,  // a load ended without
  kOffline,     // a model cannot be leased any more
  kReclaimed,   // its memory was taken back
  kLeaseGranted,
  kLeaseReleased,
  kLeaseExpired,
  kLeaseLost,         // with its Device
  kRecalled,          // a Share is wanted back
  kRecallUnanswered,  // and was not given back in time
  kPoolGrew,
  kPoolShrank,
  kPoolExpired,
  kPoolLost,
  kBuffersRefused,
  kSegmentsDestroyed,  // cached ones went back to the backend
  kDeviceLost,
  kCordoned,  // takes nothing new, on an operator's word
  kUncordoned,
};
inline constexpr size_t kEventKinds = 21;
// "SESSION_OPENED", ...
std::string_view EventKindName(EventKind kind);

struct Event {
  uint64_t sequence = 0;  // 1, 2, ... since start
  Instant at{};
  EventKind kind = EventKind::kLoaded;
  std::string device{};   // empty: of the daemon as a whole
  std::string arena{};    // "weights" or "runtime"; empty likewise
  SessionId session{};    // who it is about; not valid: nobody
  std::string subject{};  // `name@revision` of a model, the id of a pool, program and instance
  Bytes bytes{};
  Duration took{};       // of a load
  std::string detail{};  // how a load got its memory, the cause of a reclaim, a Reason
  Ledger ledger{};       // of the arena, right after it
};

// The last events, in the order in which they happened. Thread-safe; its mutex may be taken while a
// store's is held.
class EventLog {
 public:
  static constexpr size_t kKept = 10'000;

  // Numbers the event.
  void Record(Event event);

  // The first `most` events after the one of this number, of those that are kept.
  std::vector<Event> After(uint64_t sequence, size_t most) const;
  // Returns once there is an event after the one of this number, or after `span`. May return early.
  void AwaitAfter(uint64_t sequence, Duration span) const;
  // Of the last event; 0 before the first.
  uint64_t last() const;

 private:
  mutable Mutex mutex_;
  mutable CondVar recorded_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  // The event of a number lies at that number modulo kKept. All of it is there from the start, so
  // that a daemon does not grow for hours.
  std::vector<Event> ring_ ABSL_GUARDED_BY(mutex_) = std::vector<Event>(kKept);
};

}  // namespace tenure
