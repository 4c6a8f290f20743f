#pragma once

#include <string_view>
#include <variant>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/units.h"

namespace tenure {

// A part of a whole, 0 to 100.
struct Percent {
  double value = 0;
  friend bool operator==(const Percent&, const Percent&) = default;
};

using SizeOrPercent = std::variant<Bytes, Percent>;

// "64MiB", "1GiB", "512KiB", "4096", "4096B": a whole number and a binary unit. INVALID_REQUEST, as
// in the functions below, for anything else and for what 2^63 bytes do not hold.
StatusOr<Bytes> ParseSize(std::string_view text);

// A size, or "70%", "12.5%": more than 0, at most 100.
StatusOr<SizeOrPercent> ParseSizeOrPercent(std::string_view text);

// "200ms", "30s", "10m", "1h30m", "7d": whole numbers with falling units. "0" is zero, "never" is
// kForever. Refuses what has no unit, a sign, blanks or a fraction, and more than 100 years.
StatusOr<Duration> ParseDuration(std::string_view text);

// `amount` of `whole`.
Bytes Resolve(const SizeOrPercent& amount, Bytes whole);

}  // namespace tenure
