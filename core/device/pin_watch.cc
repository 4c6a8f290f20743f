#include "core/device/pin_watch.h"

#include <absl/strings/str_cat.h>
#include <array>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace tenure {

PinWatch::PinWatch() : inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)), works_(TryOut()) {}

// Some sandboxes take the watch and never report anything.
bool PinWatch::TryOut() {
  UniqueFd memfd(::memfd_create("tenure-probe", MFD_CLOEXEC));
  UniqueFd copy(::fcntl(memfd.get(), F_DUPFD_CLOEXEC, 0));
  if (!inotify_.valid() || !copy.valid()) return false;
  LetGo(std::move(memfd), Bytes(1));
  if (pinned().zero()) return false;
  copy.Reset();
  Look();
  if (pinned().zero()) return true;
  const MutexLock lock(mutex_);
  watched_.clear();
  pinned_ = 0;
  return false;
}

void PinWatch::LetGo(UniqueFd memfd, Bytes size) {
  const std::string path = absl::StrCat("/proc/self/fd/", memfd.get());
  const int watch = ::inotify_add_watch(inotify_.get(), path.c_str(), IN_DELETE_SELF);
  if (watch >= 0) {
    // Before it is closed: another thread may take the event.
    const MutexLock lock(mutex_);
    watched_.emplace(watch, Watched{.size = size});
  }
  memfd.Reset();
  const MutexLock lock(mutex_);
  TakeEvents();
  const auto kept = watched_.find(watch);
  if (kept == watched_.end()) return;
  kept->second.pinned = true;
  pinned_ += size.count();
}

void PinWatch::Look() {
  if (pinned_ == 0) return;
  const MutexLock lock(mutex_);
  TakeEvents();
}

void PinWatch::TakeEvents() {
  alignas(inotify_event) std::array<std::byte, 4096> buffer{};
  ssize_t size = 0;
  while ((size = ::read(inotify_.get(), buffer.data(), buffer.size())) > 0) {
    for (size_t at = 0; at < static_cast<size_t>(size);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      at += sizeof(event) + event.len;
      Forget(event.wd);
    }
  }
}

void PinWatch::Forget(int watch) {
  const auto gone = watched_.find(watch);
  if (gone == watched_.end()) return;
  if (gone->second.pinned) pinned_ -= gone->second.size.count();
  watched_.erase(gone);
}

}  // namespace tenure
