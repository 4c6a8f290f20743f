#pragma once

#include <algorithm>
#include <chrono>

namespace tenure::client {

using Instant = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

inline Instant Now() { return std::chrono::steady_clock::now(); }

// Longer waits are cut to this, so that sums never overflow.
inline constexpr Duration kLongest = std::chrono::hours(24 * 365);

// The moment by which something has to be done.
class Deadline {
 public:
  explicit Deadline(Duration from_now) : at_(Now() + std::clamp(from_now, Duration(0), kLongest)) {}

  Instant at() const { return at_; }
  // Zero when it is over.
  Duration left() const { return std::max(Duration(0), Duration(at_ - Now())); }

 private:
  Instant at_;
};

}  // namespace tenure::client
