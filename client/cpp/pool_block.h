#pragma once

#include <cstdint>

#include "core/arena/offset_allocator.h"
#include "tenure/buffer_kind.h"

namespace tenure::client {

// A block of a pool, small enough to be copied often.
struct PoolBlock {
  uint64_t offset = 0;
  uint64_t bytes = 0;  // a multiple of the granule
  uint32_t node = 0;   // its name in the allocator of its kind
  uint32_t note = 0;   // its number in what is recorded, 0 if it is not
  BufferKind kind = BufferKind::kActivation;

  static PoolBlock Of(const OffsetAllocator::Block& block, BufferKind kind) {
    return {.offset = block.offset.count(),
            .bytes = block.size.count(),
            .node = block.node,
            .note = 0,
            .kind = kind};
  }
  OffsetAllocator::Block block() const {
    return {.offset = tenure::Bytes(offset), .size = tenure::Bytes(bytes), .node = node};
  }
};

}  // namespace tenure::client
