#pragma once

#include <cstdint>

#include "core/base/mutex.h"
#include "core/base/status.h"

namespace tenure {

// How often the configuration was read anew, and what came of it the last time. The configuration
// of the start counts as read, and not as read anew. Thread-safe.
class ReloadLog {
 public:
  ReloadLog();

  struct Totals {
    uint64_t ok = 0;
    uint64_t failed = 0;
    bool last_ok = true;
    double last_time = 0;  // seconds since 1970, for people and their clocks
  };

  void Record(const Status& result);
  Totals Get() const;

 private:
  mutable Mutex mutex_;
  Totals totals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenure
