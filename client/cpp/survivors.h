#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tenure/v1/handle.pb.h>
#include <utility>

namespace tenure::client {

// What a client still maps of the memory that daemons gave it whose sessions are over: the next
// daemon is told of it. Thread-safe.
class Survivors {
 public:
  using BytesByDevice = std::map<std::string, uint64_t>;
  struct Memory {
    BytesByDevice weights{};
    BytesByDevice runtime{};
  };

  // Of one session that is over; replaces what was said of it before.
  void Set(const std::string& boot_id, uint64_t session_id, Memory memory);

  struct Report {
    uint64_t version = 0;  // grows with every change
    v1::Surviving surviving;
  };
  Report MakeReport() const;
  uint64_t version() const;

  // `on_change` is called after every change, until Unfollow or another's Follow; it must not wait.
  // `who` is whoever follows.
  void Follow(const void* who, std::function<void()> on_change);
  // No call is under way once this returns. Does nothing if another follows by now.
  void Unfollow(const void* who);

 private:
  using SessionKey = std::pair<std::string, uint64_t>;  // boot id, session id

  mutable std::mutex mutex_;
  std::map<SessionKey, Memory> sessions_;  // guarded by mutex_
  uint64_t version_ = 0;                   // guarded by mutex_
  const void* follower_ = nullptr;         // guarded by mutex_
  std::function<void()> on_change_;        // guarded by mutex_
};

}  // namespace tenure::client
