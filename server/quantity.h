#pragma once

#include <string>
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

// All of a whole but so much.
struct AllBut {
  Bytes left;
  friend bool operator==(const AllBut&, const AllBut&) = default;
};

// How much of a whole.
using Amount = std::variant<Bytes, Percent, AllBut>;

// "64MiB", "1GiB", "512KiB", "4096", "4096B": a whole number and a binary unit. INVALID_REQUEST, as
// in the functions below, for anything else and for what 2^63 bytes do not hold.
StatusOr<Bytes> ParseSize(std::string_view text);

// A size, or "70%", "12.5%": more than 0, at most 100; or "all-4GiB", "all".
StatusOr<Amount> ParseAmount(std::string_view text);

// "200ms", "30s", "10m", "1h30m", "7d": whole numbers with falling units. "0" is zero, "never" is
// kForever. Refuses what has no unit, a sign, blanks or a fraction, and more than 100 years.
StatusOr<Duration> ParseDuration(std::string_view text);

// As the functions above read it back, in the largest unit that says it exactly.
std::string WriteSize(Bytes size);
std::string WriteAmount(const Amount& amount);
// REQUIRES: `duration` is kForever, or not negative; what is less than 1 ms of it is left out.
std::string WriteDuration(Duration duration);

// `amount` of `whole`; zero if there is less of it than is to be left.
Bytes Resolve(const Amount& amount, Bytes whole);

}  // namespace tenure
