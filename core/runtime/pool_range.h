#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/arena/offset_allocator.h"
#include "core/base/units.h"

namespace tenure {

// The offsets of one kind of Buffers: slots side by side, each large enough for one Segment. Blocks
// are handed out of filled slots, and may span several. A slot is
//
//   empty --Expect--> coming --Fill--> filled --Close--> closed
//     ^--------Clear----'                                  |
//     ^--------Clear---------------------------------------'
//
// Thread-compatible.
class PoolRange {
 public:
  using Block = OffsetAllocator::Block;

  // REQUIRES: `segment_size` is a power of two, and `offsets` begins and ends at multiples of it.
  PoolRange(Range offsets, Bytes segment_size);

  // nullopt if no hole in the filled slots will do. REQUIRES: size > 0; `alignment` is a power of
  // two of at most a Segment's size.
  std::optional<Block> Allocate(Bytes size, Bytes alignment);
  // REQUIRES: a block that was handed out.
  void Free(const Block& block);
  // Cuts a block of whole slots into one block for each.
  std::vector<Block> SplitBySlot(Block block);

  // The fewest empty slots which, once filled, let Allocate succeed; the lowest of several. They
  // lie side by side but for what is free between them. nullopt if none will do. REQUIRES: as
  // Allocate, which cannot do it now.
  std::optional<std::vector<Bytes>> PlanGrowth(Bytes size, Bytes alignment) const;
  // The largest size that Allocate, at any offset, could serve once at most `most` slots were
  // filled.
  Bytes LargestFree(uint64_t most) const;

  // The largest free range of the filled slots; empty if there is none.
  Range LargestHole() const;

  // A slot is named by the offset of its first byte.
  void Expect(Bytes slot);
  void Fill(Bytes slot);
  // REQUIRES: no block lies in it.
  void Close(Bytes slot);
  void Clear(Bytes slot);
  // How many blocks lie in the slot, wholly or in part.
  uint32_t BlocksIn(Bytes slot) const;

  Bytes used() const { return allocator_.usage().used; }
  void Validate() const;

 private:
  enum class State { kComing, kFilled, kClosed };
  struct Slot {
    State state = State::kComing;
    uint32_t blocks = 0;
  };
  // A longest run of empty slots, or a free range that begins or ends at the border of a slot.
  struct Piece {
    Range range;
    bool empty;
  };
  // Pieces side by side, as far as they go: where a block could lie once slots were filled.
  using Stretch = std::vector<Piece>;

  Slot& At(Bytes slot, State expected);
  Bytes SlotOf(Bytes offset) const { return AlignDown(offset, segment_size_); }
  // Adds `change` to the count of blocks of each slot that the block touches.
  void Count(const Block& block, int change);
  std::vector<Stretch> Stretches() const;
  // The most bytes side by side from the first end of a piece on, with at most `most` slots filled.
  Bytes LongestFrom(const Stretch& pieces, uint64_t most) const;

  const Range offsets_;
  const Bytes segment_size_;
  OffsetAllocator allocator_;
  std::map<Bytes, Slot> slots_;  // that are not empty
};

}  // namespace tenure
