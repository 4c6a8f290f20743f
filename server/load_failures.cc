#include "server/load_failures.h"

#include <utility>

namespace tenure {

void LoadFailures::Record(std::string name, std::string device, Status error) {
  MutexLock lock(mutex_);
  last_.push_back({std::move(name), std::move(device), std::move(error)});
  ++count_;
  if (last_.size() > kKept) last_.pop_front();
}

uint64_t LoadFailures::count() const {
  MutexLock lock(mutex_);
  return count_;
}

std::optional<Status> LoadFailures::After(uint64_t seen, const std::string& name,
                                          const std::string& device) const {
  MutexLock lock(mutex_);
  uint64_t number = count_;
  for (auto failure = last_.rbegin(); failure != last_.rend() && number > seen;
       ++failure, --number) {
    if (failure->name != name) continue;
    if (device.empty() || failure->device.empty() || failure->device == device)
      return failure->error;
  }
  return std::nullopt;
}

}  // namespace tenure
