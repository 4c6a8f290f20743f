#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/units.h"

namespace tenure::bench {

enum class FitPolicy : uint8_t { kBest, kFirst, kWorst };

// An offset allocator as one writes it with the standard library: holes in a map by offset, which
// join when they touch, and (except for first fit, which walks that map) in a set by size. What
// lies beyond the highest block is no hole and is taken last, so that worst fit does not scatter
// blocks all over a range that is far too large. The baseline of OffsetAllocator.
// Thread-compatible.
class MapAllocator {
 public:
  struct Block {
    Bytes offset;
    Bytes size;
  };

  // Hands out the offsets below `end`.
  MapAllocator(FitPolicy policy, Bytes end) : policy_(policy), end_(end) {}

  // nullopt if no hole is large enough and there is no room above. REQUIRES: `size` is not zero.
  std::optional<Block> Allocate(Bytes size);
  // REQUIRES: `block` is live.
  void Free(const Block& block);

 private:
  using ByOffset = std::map<Bytes, Bytes>;

  // by_offset_.end() if no hole is large enough.
  ByOffset::iterator Find(Bytes size);
  void Insert(ByOffset::iterator before, Bytes offset, Bytes size);
  ByOffset::iterator Erase(ByOffset::iterator hole);

  const FitPolicy policy_;
  const Bytes end_;
  Bytes top_;                                  // the end of the highest block
  ByOffset by_offset_;                         // sizes of the holes
  std::set<std::pair<Bytes, Bytes>> by_size_;  // size, offset
};

}  // namespace tenure::bench
