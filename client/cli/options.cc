#include "client/cli/options.h"

#include <array>
#include <charconv>
#include <iostream>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace tenure::cli {
namespace {

using std::chrono::nanoseconds;

constexpr std::array<std::pair<std::string_view, int64_t>, 7> kUnits = {{
    {"ms", 1'000'000},
    {"us", 1'000},
    {"ns", 1},
    {"s", 1'000'000'000},
    {"m", 60'000'000'000},
    {"h", 3'600'000'000'000},
    {"d", 86'400'000'000'000},
}};

constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;

// Takes one number with its unit off `text`.
std::optional<int64_t> TakePart(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  for (const auto& [unit, nanos] : kUnits) {
    if (!text.starts_with(unit)) continue;
    text.remove_prefix(unit.size());
    int64_t product = 0;
    if (__builtin_mul_overflow(number, nanos, &product)) return std::nullopt;
    return product;
  }
  return std::nullopt;
}

}  // namespace

std::optional<nanoseconds> ParseDuration(const std::string& text) {
  if (text == "0") return nanoseconds(0);
  if (text.empty()) return std::nullopt;
  std::string_view rest = text;
  int64_t total = 0;
  while (!rest.empty()) {
    const std::optional<int64_t> part = TakePart(rest);
    if (!part || __builtin_add_overflow(total, *part, &total)) return std::nullopt;
  }
  return nanoseconds(total);
}

std::optional<client::Retention> ParseRetention(const std::string& text) {
  if (text == "never") return client::RetainForever{};
  const std::optional<nanoseconds> ttl = ParseDuration(text);
  if (!ttl) return std::nullopt;
  return *ttl;
}

std::optional<uint64_t> ParseSize(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, uint64_t>, 6> kSizes = {{
      {"", 1},
      {"B", 1},
      {"KiB", uint64_t{1} << 10},
      {"MiB", uint64_t{1} << 20},
      {"GiB", uint64_t{1} << 30},
      {"TiB", uint64_t{1} << 40},
  }};
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  for (const auto& [name, bytes] : kSizes) {
    uint64_t product = 0;
    if (name != unit) continue;
    if (__builtin_mul_overflow(number, bytes, &product)) return std::nullopt;
    return product;
  }
  return std::nullopt;
}

std::string CheckDuration(const std::string& text) {
  return ParseDuration(text) ? std::string()
                             : "no duration such as 500ms, 30s, 10m or 1h30m: " + text;
}

std::string CheckRetention(const std::string& text) {
  return ParseRetention(text) ? std::string()
                              : "neither `never` nor a duration such as 10m or 0: " + text;
}

void PrintJson(const nlohmann::ordered_json& json) {
  std::cout << json.dump(2, ' ', false, kReplace) << '\n';
}

void PrintJsonLine(const nlohmann::ordered_json& json) {
  std::cout << json.dump(-1, ' ', false, kReplace) << std::endl;
}

}  // namespace tenure::cli
