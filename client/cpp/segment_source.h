#pragma once

#include <absl/status/statusor.h>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "client/cpp/deadline.h"
#include "tenure/buffer_kind.h"

namespace tenure::client {

// Where a pool's segments come from. Offsets are those of the pool's range. Thread-safe.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  // Segments side by side. Both are multiples of a segment's size.
  struct Grown {
    uint64_t offset;
    uint64_t bytes;
  };
  // Whole segments side by side, mapped when this returns; at least `bytes` of them. May wait for
  // the daemon, within `deadline`; ends soon once `cancel` asks for it.
  virtual absl::StatusOr<Grown> Grow(BufferKind kind, uint64_t bytes, Deadline deadline,
                                     const std::stop_token& cancel) = 0;
  // Segments at these offsets are not used any more and never will be by this pool unless granted
  // anew: unmapped and given back. Must not wait.
  virtual void Shrink(std::vector<uint64_t> offsets) = 0;
};

}  // namespace tenure::client
