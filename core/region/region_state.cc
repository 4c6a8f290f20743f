#include "core/region/region_state.h"

namespace tenure {

std::string_view RegionStateName(RegionState state) {
  switch (state) {
    case RegionState::kLoading:
      return "LOADING";
    case RegionState::kActive:
      return "ACTIVE";
    case RegionState::kDraining:
      return "DRAINING";
    case RegionState::kRetained:
      return "RETAINED";
    case RegionState::kEmpty:
      return "EMPTY";
    case RegionState::kLost:
      return "LOST";
    case RegionState::kFreed:
      return "FREED";
  }
  TENURE_CHECK(false);
}

}  // namespace tenure
