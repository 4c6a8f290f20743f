#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

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

  uint64_t count() const { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }
  // The lowest bound, in seconds, that at least the part `q` of all lies under; infinity if that is
  // the last bucket's.
  double Quantile(double q) const {
    const double wanted = q * static_cast<double>(count());
    uint64_t below = 0;
    for (size_t bucket = 0; bucket < kUpperBounds.size(); ++bucket) {
      below += counts[bucket];
      if (static_cast<double>(below) >= wanted) return kUpperBounds[bucket];
    }
    return std::numeric_limits<double>::infinity();
  }
};

}  // namespace tenure
