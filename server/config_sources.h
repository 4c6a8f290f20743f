#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "server/config.h"

namespace tenure {

// What a configuration is made of. Of a key that several of them have, a flag counts before the
// environment, that before the file, and that before the default.
struct ConfigSources {
  std::string file;  // empty: none
  // NAME and value. TENURED_WEIGHTS_RETAIN_TTL is `weights.retain_ttl`, and so on; TENURE_DIR,
  // which clients know too, is `directory` where TENURED_DIRECTORY does not say otherwise. What
  // begins otherwise is not looked at.
  std::vector<std::pair<std::string, std::string>> environment = {};

  struct Flag {
    std::string name;  // as it was given: "--set"
    std::string key;
    std::string value;
  };
  std::vector<Flag> flags = {};  // of several for one key the last counts
  // NAME=PATH: one more model root, or another path for one of the file.
  std::vector<std::string> model_roots = {};
};

// The variables of this process that ConfigSources is about.
std::vector<std::pair<std::string, std::string>> ReadEnvironment();

// "KEY=VALUE" of a flag `--set`. INVALID_REQUEST without a '='.
StatusOr<ConfigSources::Flag> ParseSetFlag(const std::string& text);

// Reads them all, the file anew, and checks what comes of it. INVALID_REQUEST with a line for each
// fault: as ParseConfig and CheckConfig, and for a variable or flag that names no key.
StatusOr<LoadedConfig> Gather(const ConfigSources& sources);

}  // namespace tenure
