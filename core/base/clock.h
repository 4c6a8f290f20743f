#pragma once

// Time inside the daemon is monotonic. This header and its .cc are the only place that names the
// steady clock; nothing near leases or TTLs looks at the wall clock.

#include <chrono>

namespace tenure {

using Instant = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

// Stands for "never" as a deadline or a TTL.
inline constexpr Instant kNever = Instant::max();
inline constexpr Duration kForever = Duration::max();

// `start` + `span`, kNever where that is out of reach.
constexpr Instant After(Instant start, Duration span) {
  if (start == kNever || span == kForever || span > kNever - start) return kNever;
  return start + span;
}

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant Now() const = 0;
};

// The machine's steady clock.
class SteadyClock final : public Clock {
 public:
  Instant Now() const override;
};

}  // namespace tenure
