#pragma once

#include <string>
#include <vector>

#include "server/config.h"

namespace tenure {

// A value of the running daemon's that another configuration would change.
struct ConfigChange {
  std::string key;  // "weights.retain_ttl", "models.ranker"
  std::string before;
  std::string after;  // either may be "none", of a model that is not in the list
};

// What becomes of a running daemon with another configuration.
struct ConfigChanges {
  std::vector<ConfigChange> changes;  // that take effect at once
  // What cannot change before the daemon is started again, one line for each that begins with the
  // place. If there are any, nothing is to be changed.
  std::vector<std::string> refusals;
};

ConfigChanges Compare(const Config& now, const LoadedConfig& next);

}  // namespace tenure
