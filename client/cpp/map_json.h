#pragma once

#include <absl/status/statusor.h>
#include <string>

namespace tenure::client {

// A serialized MemoryMap as protobuf's JSON, with the names of map.proto and every field there.
// INTERNAL if it is none.
absl::StatusOr<std::string> MapJson(const std::string& serialized);

}  // namespace tenure::client
