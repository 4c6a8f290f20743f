#include "client/cli/format.h"

#include <array>
#include <cstdio>

namespace tenure::cli {
namespace {

constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

std::string Print(const char* format, double value, const char* unit) {
  std::array<char, 64> text{};
  snprintf(text.data(), text.size(), format, value, unit);
  return text.data();
}

// Two numbers of a clock: "2m05s".
std::string Print(const char* format, int64_t high, int64_t low) {
  std::array<char, 64> text{};
  snprintf(text.data(), text.size(), format, static_cast<intmax_t>(high),
           static_cast<intmax_t>(low));
  return text.data();
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const bool whole = value == static_cast<double>(static_cast<uint64_t>(value));
  return Print(whole ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
}

std::string FormatDuration(std::chrono::nanoseconds duration) {
  const int64_t nanos = duration.count();
  const auto value = static_cast<double>(nanos);
  if (nanos < 1'000) return Print("%.0f %s", value, "ns");
  if (nanos < 1'000'000) return Print("%.3g %s", value / 1e3, "us");
  if (nanos < 1'000'000'000) return Print("%.3g %s", value / 1e6, "ms");
  const int64_t seconds = nanos / 1'000'000'000;
  if (seconds < 60) return Print("%.3g %s", value / 1e9, "s");
  if (seconds < 3600) return Print("%jdm%02jds", seconds / 60, seconds % 60);
  if (seconds < 86400) return Print("%jdh%02jdm", seconds / 3600, seconds / 60 % 60);
  return Print("%jdd%02jdh", seconds / 86400, seconds / 3600 % 24);
}

std::string FormatRate(uint64_t bytes, std::chrono::nanoseconds duration) {
  if (duration.count() <= 0) return {};
  const double per_second =
      static_cast<double>(bytes) * 1e9 / static_cast<double>(duration.count());
  return FormatBytes(static_cast<uint64_t>(per_second)) + "/s";
}

}  // namespace tenure::cli
