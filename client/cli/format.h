#pragma once

// Numbers as people read them.

#include <chrono>
#include <cstdint>
#include <string>

namespace tenure::cli {

// "64 MiB", "1.50 GiB", "300 B".
std::string FormatBytes(uint64_t bytes);

// "350 ns", "12.3 ms", "4.56 s", "2m05s", "3h12m", "2d04h".
std::string FormatDuration(std::chrono::nanoseconds duration);

// "1.25 GiB/s"; empty if there is no time to divide by.
std::string FormatRate(uint64_t bytes, std::chrono::nanoseconds duration);

}  // namespace tenure::cli
