#pragma once

#include <string>

#include "server/config.h"

namespace tenure {

// The whole configuration as YAML that ParseConfig takes; behind each value a comment says where it
// comes from.
std::string PrintConfig(const LoadedConfig& loaded);

}  // namespace tenure
