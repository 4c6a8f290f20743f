#include "core/base/units.h"

#include <array>
#include <cinttypes>
#include <cstdio>

namespace tenure {

std::string FormatBytes(Bytes bytes) {
  struct Unit {
    int shift;
    const char* name;
  };
  static constexpr std::array<Unit, 4> kUnits = {
      {{40, "TiB"}, {30, "GiB"}, {20, "MiB"}, {10, "KiB"}}};
  std::array<char, 32> text{};
  for (const Unit& unit : kUnits) {
    if (bytes.count() < (uint64_t{1} << unit.shift)) continue;
    const bool whole = (bytes.count() & ((uint64_t{1} << unit.shift) - 1)) == 0;
    if (whole) {
      std::snprintf(text.data(), text.size(), "%" PRIu64 " %s", bytes.count() >> unit.shift,
                    unit.name);
    } else {
      const double value =
          static_cast<double>(bytes.count()) / static_cast<double>(uint64_t{1} << unit.shift);
      std::snprintf(text.data(), text.size(), "%.2f %s", value, unit.name);
    }
    return text.data();
  }
  std::snprintf(text.data(), text.size(), "%" PRIu64 " B", bytes.count());
  return text.data();
}

}  // namespace tenure
