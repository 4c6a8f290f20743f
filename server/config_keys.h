#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "server/config.h"

namespace tenure {

// When a value that a file has been given anew takes effect.
enum class TakesEffect {
  kAtStart,   // only in a daemon that is started again
  kOnReload,  // as soon as the running one is told to read the file
};

// One value of a configuration, or of an element of one of its lists: how it is called, read and
// written. What is not in these tables is no key.
template <typename Record>
struct ConfigKey {
  std::string name;  // "weights.retain_ttl"
  TakesEffect takes_effect = TakesEffect::kAtStart;
  bool list = false;  // a list of plain values in YAML, which text separates by commas
  // INVALID_REQUEST, saying what was expected, for text that makes no sense.
  std::function<Status(const std::string& text, Record& record)> read;
  // What `read` takes; nullopt for a value that is left open.
  std::function<std::optional<std::string>(const Record& record)> write;
};

// Of the configuration itself, in the order in which it is shown.
const std::vector<ConfigKey<Config>>& ConfigKeys();
// Of the elements of `model_roots`, `devices` and `models`.
const std::vector<ConfigKey<RootConfig>>& RootKeys();
const std::vector<ConfigKey<DeviceConfig>>& DeviceKeys();
const std::vector<ConfigKey<WantedModel>>& ModelKeys();

// Null if there is no such key.
const ConfigKey<Config>* FindConfigKey(std::string_view name);

// "TENURED_WEIGHTS_RETAIN_TTL" of "weights.retain_ttl".
std::string EnvironmentName(std::string_view key);

}  // namespace tenure
