#pragma once

#include <array>

#include "core/base/duration_histogram.h"

namespace tenure {

// How long leases and Buffers were held: 1 ms to 75 h, times four.
inline constexpr std::array kHoldBounds = {0.001,    0.004,    0.016,     0.064,     0.256,
                                           1.024,    4.096,    16.384,    65.536,    262.144,
                                           1048.576, 4194.304, 16777.216, 67108.864, 268435.456};
using HoldDurations = DurationHistogram<kHoldBounds>;

}  // namespace tenure
