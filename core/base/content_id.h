#pragma once

#include <compare>

#include "core/base/digest.h"

namespace tenure {

// Identifies the content of a model: device, inode, size, modification time in nanoseconds and
// header digest of every shard. Equal ids mean equal bytes unless somebody rewrote a file and
// restored its times.
struct ContentId {
  Digest128 digest;
  friend auto operator<=>(const ContentId&, const ContentId&) = default;
};

}  // namespace tenure

template <>
struct std::hash<tenure::ContentId> {
  size_t operator()(const tenure::ContentId& id) const noexcept {
    return std::hash<tenure::Digest128>()(id.digest);
  }
};
