#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "core/base/units.h"

namespace tenure::bench {

// Sizes of the buffers of one inference: 64 KiB to 256 MiB, the large ones more often, times what
// is there of a full batch. Continuous, as shapes that change from request to request are.
// Thread-compatible.
class BufferSizes {
 public:
  Bytes Next(std::mt19937_64& random) {
    const double buffer = std::exp2(28 - 12 * std::pow(unit_(random), 1.5));
    const double batch = std::exp2(-3 * unit_(random));
    return Bytes(std::max<uint64_t>(KiB(64).count(), static_cast<uint64_t>(buffer * batch)));
  }

 private:
  std::uniform_real_distribution<double> unit_;
};

}  // namespace tenure::bench
