#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tenure/client.h"

namespace tenure::cli {

// "500ms", "30s", "10m", "2h", "7d", "1h30m", "0". nullopt for anything else.
std::optional<std::chrono::nanoseconds> ParseDuration(const std::string& text);

// A duration, or "never" for RetainForever. nullopt for anything else.
std::optional<client::Retention> ParseRetention(const std::string& text);

// For CLI11: the complaint about a duration or retention that does not parse, empty for a good one.
std::string CheckDuration(const std::string& text);
std::string CheckRetention(const std::string& text);

// "4096", "64MiB", "1GiB": a whole number and a binary unit. nullopt for anything else, and for
// what 64 bits do not hold.
std::optional<uint64_t> ParseSize(const std::string& text);

// Prints it, indented, on stdout. Names that are no UTF-8 do not stop it.
void PrintJson(const nlohmann::ordered_json& json);
// The same on one line, for streams.
void PrintJsonLine(const nlohmann::ordered_json& json);

}  // namespace tenure::cli
