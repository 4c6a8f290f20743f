#include "core/store/counters.h"

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

}  // namespace tenure
