#pragma once

#include <cstdint>

#include "core/arena/offset_allocator.h"
#include "tenure/buffer_kind.h"

namespace tenure::client {

// A block of a pool, small enough to be copied often.
struct PoolBlock {
  uint64_t offset = 0;
  uint64_t bytes = 0;  // a multiple of the granule
  uint64_t name = 0;  // both of its numbers, see node() and note(), so that they are copied at once
  BufferKind kind = BufferKind::kActivation;
  bool of_slot = false;  // the name is that of SlotShelves, and of no allocator

  static PoolBlock Of(const OffsetAllocator::Block& block, BufferKind kind, uint32_t note) {
    return {.offset = block.offset.count(),
            .bytes = block.size.count(),
            .name = uint64_t{note} << 32 | block.node,
            .kind = kind};
  }
  // Its name in the allocator of its kind.
  uint32_t node() const { return static_cast<uint32_t>(name); }
  // Its number in what is recorded, 0 if it is not.
  uint32_t note() const { return static_cast<uint32_t>(name >> 32); }
  OffsetAllocator::Block block() const {
    return {.offset = tenure::Bytes(offset), .size = tenure::Bytes(bytes), .node = node()};
  }
};

}  // namespace tenure::client
