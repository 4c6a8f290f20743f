#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "core/base/mutex.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

namespace tenure {

// Knows which memory that was given back is still pinned: of a memfd that this process has closed,
// another one may keep an fd, a map or an unread message with an fd in it, and the kernel keeps the
// pages until the last of them is gone. It reports that moment as the deletion of the file, to
// whoever watches it with inotify. Pages that somebody had the kernel pin beyond their map (for
// RDMA, say) are not seen. Thread-safe.
class PinWatch {
 public:
  // Tries it out once: without /proc, or an inotify instance to be had, nothing can be watched.
  PinWatch();
  PinWatch(const PinWatch&) = delete;
  PinWatch& operator=(const PinWatch&) = delete;

  bool works() const { return works_; }

  // Closes a memfd of `size` bytes, which are pinned from then on unless they went with it. One
  // that cannot be watched, since the user has no inotify watches left, is taken to be gone.
  // REQUIRES: this process does not map it any more.
  void LetGo(UniqueFd memfd, Bytes size);

  // Of what was let go, what somebody still pinned when it was last looked at.
  Bytes pinned() const { return Bytes(pinned_); }
  // Looks again. Does not wait.
  void Look();

 private:
  struct Watched {
    Bytes size;
    bool pinned = false;  // else it is just being closed
  };

  bool TryOut();
  void TakeEvents() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(int watch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UniqueFd inotify_;
  std::atomic<uint64_t> pinned_ = 0;  // the sum over watched_
  Mutex mutex_;
  std::unordered_map<int, Watched> watched_ ABSL_GUARDED_BY(mutex_);  // by watch
  const bool works_;
};

}  // namespace tenure
