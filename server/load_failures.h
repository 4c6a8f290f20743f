#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "core/base/mutex.h"
#include "core/base/status.h"

namespace tenure {

// The last loads that failed, for those who watch a model: a load that fails leaves nothing else
// behind. Thread-safe.
class LoadFailures {
 public:
  // `device` as the load asked for it: empty means any.
  void Record(std::string name, std::string device, Status error);

  // How many were recorded so far.
  uint64_t count() const;
  // The last failure of a load of the name on the device, if more than `seen` were recorded before
  // it. Each device may be empty for any.
  std::optional<Status> After(uint64_t seen, const std::string& name,
                              const std::string& device) const;

 private:
  static constexpr size_t kKept = 64;

  struct Failure {
    std::string name;
    std::string device;
    Status error;
  };

  mutable Mutex mutex_;
  std::deque<Failure> last_ ABSL_GUARDED_BY(mutex_);
  uint64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tenure
