#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "core/base/clock.h"

namespace tenure {

// How often each bucket of durations was hit. `kUpperBounds` is a constexpr array of rising
// seconds; beyond the last there is one more bucket. Thread-compatible.
template <const auto& kUpperBounds>
struct DurationHistogram {
  static constexpr const auto& kBounds = kUpperBounds;

  std::array<uint64_t, kUpperBounds.size() + 1> counts{};
  double sum_seconds = 0;

  void Record(Duration duration) {
    const double seconds = std::chrono::duration<double>(duration).count();
    const auto bucket = std::lower_bound(kUpperBounds.begin(), kUpperBounds.end(), seconds);
    ++counts[static_cast<size_t>(bucket - kUpperBounds.begin())];
    sum_seconds += seconds;
  }
};

}  // namespace tenure
