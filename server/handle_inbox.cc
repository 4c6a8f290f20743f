#include "server/handle_inbox.h"

#include <sys/eventfd.h>
#include <utility>

namespace tenure {

bool HandleInbox::Open() {
  event_fd_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event_fd_.valid()) return false;
  const MutexLock lock(mutex_);
  open_ = true;
  return true;
}

void HandleInbox::Close() {
  std::vector<HandlePost> dropped;
  const MutexLock lock(mutex_);
  open_ = false;
  dropped.swap(posts_);
}

void HandleInbox::Post(HandlePost post) {
  const MutexLock lock(mutex_);
  if (!open_) return;
  posts_.push_back(std::move(post));
  // The counter is far from its limit: each Take sets it back.
  if (posts_.size() == 1) eventfd_write(event_fd_.get(), 1);
}

std::vector<HandlePost> HandleInbox::Take() {
  const MutexLock lock(mutex_);
  eventfd_t ignored = 0;
  eventfd_read(event_fd_.get(), &ignored);
  return std::exchange(posts_, {});
}

}  // namespace tenure
