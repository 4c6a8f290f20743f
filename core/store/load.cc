#include "core/store/load.h"

#include "core/base/check.h"

namespace tenure {

std::string_view ReuseName(Reuse reuse) {
  switch (reuse) {
    case Reuse::kResident:
      return "RESIDENT";
    case Reuse::kRevived:
      return "REVIVED";
    case Reuse::kAdopted:
      return "ADOPTED";
    case Reuse::kRecycled:
      return "RECYCLED";
    case Reuse::kFresh:
      return "FRESH";
  }
  TENURE_CHECK(false);
}

Status CallLimits::Check(Instant now) const {
  if (cancelled && cancelled()) return Error(Reason::kCancelled, "the caller gave up");
  if (now >= deadline) return Error(Reason::kDeadline, "the call's deadline passed");
  return absl::OkStatus();
}

}  // namespace tenure
