#include "core/store/placement.h"

#include <algorithm>

namespace tenure {

size_t ChooseDevice(std::span<const Proximity> devices) {
  TENURE_CHECK(!devices.empty());
  const auto worse = [](const Proximity& a, const Proximity& b) {
    if (a.serving != b.serving) return b.serving;
    return a.nearness != b.nearness ? a.nearness > b.nearness : a.room < b.room;
  };
  return static_cast<size_t>(std::max_element(devices.begin(), devices.end(), worse) -
                             devices.begin());
}

}  // namespace tenure
