#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/store/session.h"
#include "core/store/store.h"

namespace tenure {

// What is known of a Session's connection and process.
enum class SessionState {
  kLive,  // connected
  kDeaf,  // broke the protocol: it is granted nothing more and not listened to
  kGone,  // said goodbye or hung up, but its process has not ended
};
inline constexpr size_t kSessionStates = 3;

// `size` random bytes from the kernel as twice as many lower-case hexadecimal digits. Waits only
// while the machine is booting.
std::string RandomHex(size_t size);

// One Session at one moment. What it holds is the Store's to tell: Store::UseBy.
struct SessionView {
  SessionId id;
  SessionIdentity identity;
  SessionState state = SessionState::kLive;
  Duration silent_for{};  // since its last heartbeat, or since it was opened
};

// The Sessions whose processes have not ended, and the tokens that prove who calls. A Session is in
// the list from Open to Remove. Thread-safe; calls the Store without holding its own lock.
class SessionRegistry {
 public:
  // `clock` outlives the registry. At most `max_sessions` exist at a time, in any state.
  SessionRegistry(const Clock& clock, size_t max_sessions);

  struct Opened {
    SessionId id;
    std::string token;  // 32 hexadecimal digits
  };
  // Opens a Session in `store` and makes up its token. LIMIT if there are too many.
  StatusOr<Opened> Open(Store& store, const SessionIdentity& identity);
  // A heartbeat of a live Session has come.
  void Heard(SessionId session);
  // Its token is worth nothing any more. REQUIRES: `state` is not kLive.
  void Leave(SessionId session, SessionState state);
  // Its process has ended, or nothing is left to wait for. `lost`: without a goodbye.
  void Remove(SessionId session, bool lost);

  // The live Session that was given the token. Deaf and gone ones get nothing by theirs, so that no
  // call can grant or renew anything to them. The token is looked up by hash: what a caller could
  // learn from the time of that tells nothing about 128 random bits.
  std::optional<SessionId> Authenticate(std::string_view token_hex) const;
  // nullopt if there is no such Session.
  std::optional<SessionView> Find(SessionId session) const;
  // In the order of ids.
  std::vector<SessionView> Sessions() const;
  // How many there are of each state, in the order of the enum.
  std::array<size_t, kSessionStates> CountByState() const;
  // Sessions whose process ended, since start, without having said goodbye.
  uint64_t clients_lost() const;

 private:
  struct Entry {
    SessionIdentity identity;
    std::string token;
    SessionState state = SessionState::kLive;
    Instant heard;
  };

  static SessionView ViewOf(SessionId session, const Entry& entry, Instant now);

  const Clock& clock_;
  const size_t max_sessions_;

  mutable Mutex mutex_;
  std::map<SessionId, Entry> sessions_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, SessionId> by_token_ GUARDED_BY(mutex_);  // live ones only
  size_t opening_ GUARDED_BY(mutex_) = 0;  // promised room while the Store is called
  uint64_t clients_lost_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tenure
