#pragma once

#include <atomic>

#include "core/base/clock.h"

namespace tenure {

// A clock that stands still until a test moves it. Thread-safe.
class ManualClock final : public Clock {
 public:
  // Starts an hour after the epoch, so that a test can look back.
  ManualClock() : since_epoch_(Duration(std::chrono::hours(1)).count()) {}

  Instant Now() const override { return Instant(Duration(since_epoch_.load())); }
  void Advance(Duration span) { since_epoch_.fetch_add(span.count()); }

 private:
  std::atomic<Duration::rep> since_epoch_;
};

}  // namespace tenure
