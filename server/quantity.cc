#include "server/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace tenure {
namespace {

struct SizeUnit {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<SizeUnit, 6> kSizeUnits = {{{"", 1},
                                                 {"B", 1},
                                                 {"KiB", uint64_t{1} << 10},
                                                 {"MiB", uint64_t{1} << 20},
                                                 {"GiB", uint64_t{1} << 30},
                                                 {"TiB", uint64_t{1} << 40}}};

struct TimeUnit {
  std::string_view name;
  Duration span;
};
// Longest first: a duration names its units in this order, each once.
constexpr std::array<TimeUnit, 5> kTimeUnits = {{{"d", std::chrono::hours(24)},
                                                 {"h", std::chrono::hours(1)},
                                                 {"m", std::chrono::minutes(1)},
                                                 {"s", std::chrono::seconds(1)},
                                                 {"ms", std::chrono::milliseconds(1)}}};
constexpr Duration kLongest = std::chrono::hours(24 * 36500);

constexpr uint64_t kMostBytes = uint64_t{1} << 63;

Status Refuse(std::string_view expected, std::string_view text) {
  return Error(Reason::kInvalidRequest,
               "expected " + std::string(expected) + ", not \"" + std::string(text) + "\"");
}

// Takes the digits that `text` starts with off it; nullopt if there are none or too many.
std::optional<uint64_t> TakeNumber(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// Takes the letters that `text` starts with off it.
std::string_view TakeWord(std::string_view& text) {
  size_t length = 0;
  while (length < text.size() && (text[length] < '0' || text[length] > '9')) ++length;
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

std::optional<Duration> ReadDuration(std::string_view text) {
  Duration sum{};
  size_t next_unit = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    const std::optional<uint64_t> number = TakeNumber(text);
    if (!number.has_value()) return std::nullopt;
    const std::string_view word = TakeWord(text);
    while (next_unit < kTimeUnits.size() && kTimeUnits[next_unit].name != word) ++next_unit;
    if (next_unit == kTimeUnits.size()) return std::nullopt;
    const Duration span = kTimeUnits[next_unit++].span;
    if (*number > static_cast<uint64_t>((kLongest - sum) / span)) return std::nullopt;
    sum += static_cast<int64_t>(*number) * span;
  }
  return sum;
}

}  // namespace

StatusOr<Bytes> ParseSize(std::string_view text) {
  constexpr std::string_view kExpected = "a size such as 64MiB, 1GiB or 4096";
  std::string_view rest = text;
  const std::optional<uint64_t> number = TakeNumber(rest);
  if (!number.has_value()) return Refuse(kExpected, text);
  for (const SizeUnit& unit : kSizeUnits) {
    if (rest != unit.name) continue;
    if (*number > kMostBytes / unit.bytes) return Refuse(kExpected, text);
    return Bytes(*number * unit.bytes);
  }
  return Refuse(kExpected, text);
}

StatusOr<Amount> ParseAmount(std::string_view text) {
  if (text == "all") return Amount(AllBut{});
  if (text.starts_with("all-")) {
    if (StatusOr<Bytes> left = ParseSize(text.substr(4)); left.ok()) return Amount(AllBut{*left});
  } else if (!text.empty() && text.back() == '%') {
    double value = 0;
    const char* const last = text.data() + text.size() - 1;
    const auto [end, error] = std::from_chars(text.data(), last, value, std::chars_format::fixed);
    if (error == std::errc() && end == last && value > 0 && value <= 100) {
      return Amount(Percent{value});
    }
  } else if (StatusOr<Bytes> size = ParseSize(text); size.ok()) {
    return Amount(*size);
  }
  return Refuse("a size such as 64MiB, more than 0% and at most 100%, or all-4GiB", text);
}

StatusOr<Duration> ParseDuration(std::string_view text) {
  if (text == "never") return kForever;
  if (text == "0") return Duration::zero();
  const std::optional<Duration> duration = ReadDuration(text);
  if (duration.has_value()) return *duration;
  return Refuse("a duration such as 200ms, 30s, 1h30m, 0 or never", text);
}

std::string WriteSize(Bytes size) {
  const auto unit = std::find_if(kSizeUnits.rbegin(), kSizeUnits.rend(), [&](const SizeUnit& each) {
    return size.count() >= each.bytes && size.count() % each.bytes == 0;
  });
  if (unit == kSizeUnits.rend()) return "0";
  return std::to_string(size.count() / unit->bytes) +
         std::string(unit->bytes == 1 ? std::string_view() : unit->name);
}

std::string WriteAmount(const Amount& amount) {
  if (const Bytes* size = std::get_if<Bytes>(&amount)) return WriteSize(*size);
  if (const AllBut* all = std::get_if<AllBut>(&amount)) {
    return all->left.zero() ? "all" : "all-" + WriteSize(all->left);
  }
  std::array<char, 400> text{};  // as long as the smallest number is, written out
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), std::get<Percent>(amount).value,
                    std::chars_format::fixed);
  return std::string(text.data(), end) + "%";
}

std::string WriteDuration(Duration duration) {
  if (duration == kForever) return "never";
  std::string text;
  for (const TimeUnit& unit : kTimeUnits) {
    const auto count = duration / unit.span;
    if (count == 0) continue;
    text += std::to_string(count) + std::string(unit.name);
    duration -= count * unit.span;
  }
  return text.empty() ? "0" : text;
}

Bytes Resolve(const Amount& amount, Bytes whole) {
  if (const Bytes* size = std::get_if<Bytes>(&amount)) return *size;
  if (const AllBut* all = std::get_if<AllBut>(&amount)) return SaturatingSub(whole, all->left);
  const double part = std::get<Percent>(amount).value / 100 * static_cast<double>(whole.count());
  return std::min(whole, Bytes(static_cast<uint64_t>(part)));
}

}  // namespace tenure
