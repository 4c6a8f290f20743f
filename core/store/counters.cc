#include "core/store/counters.h"

#include <algorithm>

#include "core/base/check.h"

namespace tenure {

std::string_view ReclaimCauseName(ReclaimCause cause) {
  switch (cause) {
    case ReclaimCause::kExpired:
      return "expired";
    case ReclaimCause::kPressure:
      return "pressure";
    case ReclaimCause::kTrimmed:
      return "trimmed";
  }
  TENURE_CHECK(false);
}

void DurationHistogram::Record(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++counts[static_cast<size_t>(bucket - kBounds.begin())];
  sum_seconds += seconds;
}

}  // namespace tenure
