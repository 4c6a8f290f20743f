#include "server/session_registry.h"

#include <absl/strings/str_cat.h>
#include <errno.h>
#include <sys/random.h>
#include <utility>

#include "core/base/check.h"

namespace tenure {

std::string RandomHex(size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string raw(size, '\0');
  for (size_t have = 0; have < size;) {
    const ssize_t got = getrandom(raw.data() + have, size - have, 0);
    TENURE_CHECK(got >= 0 || errno == EINTR);
    if (got > 0) have += static_cast<size_t>(got);
  }
  std::string hex;
  hex.reserve(2 * size);
  for (const char c : raw) {
    const auto byte = static_cast<unsigned char>(c);
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 0xf]);
  }
  return hex;
}

SessionRegistry::SessionRegistry(const Clock& clock, size_t max_sessions)
    : clock_(clock), max_sessions_(max_sessions) {}

StatusOr<SessionRegistry::Opened> SessionRegistry::Open(Store& store,
                                                        const SessionIdentity& identity) {
  {
    const MutexLock lock(mutex_);
    if (sessions_.size() + opening_ >= max_sessions_) {
      return Error(Reason::kLimit,
                   absl::StrCat("the daemon has all the sessions it may have: ", max_sessions_),
                   {{"max_sessions", absl::StrCat(max_sessions_)}});
    }
    ++opening_;
  }
  Opened opened{.id = store.OpenSession(identity), .token = RandomHex(16)};
  const MutexLock lock(mutex_);
  --opening_;
  sessions_.emplace(opened.id,
                    Entry{.identity = identity, .token = opened.token, .heard = clock_.Now()});
  by_token_.emplace(opened.token, opened.id);
  return opened;
}

void SessionRegistry::Heard(SessionId session) {
  const Instant now = clock_.Now();
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found != sessions_.end()) found->second.heard = now;
}

void SessionRegistry::Leave(SessionId session, SessionState state) {
  TENURE_CHECK(state != SessionState::kLive);
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  found->second.state = state;
  by_token_.erase(found->second.token);
}

void SessionRegistry::Remove(SessionId session, bool lost) {
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  by_token_.erase(found->second.token);
  sessions_.erase(found);
  if (lost) ++clients_lost_;
}

std::optional<SessionId> SessionRegistry::Authenticate(std::string_view token_hex) const {
  const std::string token(token_hex);
  const MutexLock lock(mutex_);
  const auto found = by_token_.find(token);
  if (found == by_token_.end()) return std::nullopt;
  return found->second;
}

SessionView SessionRegistry::ViewOf(SessionId session, const Entry& entry, Instant now) {
  return {.id = session,
          .identity = entry.identity,
          .state = entry.state,
          .silent_for = now - entry.heard};
}

std::optional<SessionView> SessionRegistry::Find(SessionId session) const {
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return std::nullopt;
  return ViewOf(session, found->second, clock_.Now());
}

std::vector<SessionView> SessionRegistry::Sessions() const {
  std::vector<SessionView> views;
  const MutexLock lock(mutex_);
  const Instant now = clock_.Now();
  views.reserve(sessions_.size());
  for (const auto& [session, entry] : sessions_) views.push_back(ViewOf(session, entry, now));
  return views;
}

std::array<size_t, kSessionStates> SessionRegistry::CountByState() const {
  std::array<size_t, kSessionStates> counts{};
  const MutexLock lock(mutex_);
  for (const auto& [session, entry] : sessions_) ++counts[static_cast<size_t>(entry.state)];
  return counts;
}

uint64_t SessionRegistry::clients_lost() const {
  const MutexLock lock(mutex_);
  return clients_lost_;
}

}  // namespace tenure
