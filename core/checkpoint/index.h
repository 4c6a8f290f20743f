#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace tenure {

// The weight map of a `model.safetensors.index.json`: tensor name and base name of its shard, in
// the file's order. INVALID_CHECKPOINT for anything but an object with a non-empty `weight_map` of
// strings to strings, duplicate keys, or a shard name that is empty or is not a plain file name.
StatusOr<std::vector<std::pair<std::string, std::string>>> ParseShardIndex(std::string_view json);

}  // namespace tenure
