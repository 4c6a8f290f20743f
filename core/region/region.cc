#include "core/region/region.h"

namespace tenure {

Holding Region::holding() const {
  TENURE_CHECK(state != RegionState::kFreed);
  if (state == RegionState::kLost) return Holding::kLost;
  if (state == RegionState::kLoading) return Holding::kLoading;
  if (leases > 0) return Holding::kLeased;
  if (quarantined()) return Holding::kQuarantined;
  if (state == RegionState::kActive) return Holding::kIdle;
  return Holding::kRetained;
}

bool Region::disposable() const {
  return (state == RegionState::kRetained || state == RegionState::kEmpty) && leases == 0 &&
         !quarantined() && exports == 0;
}

}  // namespace tenure
