#pragma once

#include <optional>
#include <string>

#include "core/base/clock.h"

namespace tenure {

// A model that the daemon is to bring online by itself; see LoadModelRequest in model.proto.
struct WantedModel {
  std::string name;
  std::string path;
  std::string device = {};  // empty: any
  bool pin = false;
  std::optional<Duration> retain_ttl = {};  // nullopt: as configured; kForever: never
  friend bool operator==(const WantedModel&, const WantedModel&) = default;
};

}  // namespace tenure
