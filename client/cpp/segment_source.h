#pragma once

#include <absl/status/statusor.h>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "client/cpp/deadline.h"
#include "tenure/buffer_kind.h"

namespace tenure::client {

// Where a pool's segments come from, and its slots. Offsets are those of the pool's range.
// Thread-safe.
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

  // Memory for one slot, which the daemon counts as a buffer of its own.
  struct Granted {
    uint64_t offset;
    uint64_t buffer_id;
  };
  // For activations, mapped when this returns. Waits as Grow does.
  virtual absl::StatusOr<Granted> AcquireBuffer(uint64_t bytes, uint64_t alignment,
                                                Deadline deadline,
                                                const std::stop_token& cancel) = 0;
  // They are not used any more, and go back. Must not wait.
  virtual void ReleaseBuffers(const std::vector<uint64_t>& buffer_ids) = 0;
};

}  // namespace tenure::client
