#include <bit>

#include "core/arena/offset_allocator.h"

namespace tenure {

void OffsetAllocator::Validate() const {
  ValidateNeighbours();
  ValidateBins();
}

void OffsetAllocator::ValidateNeighbours() const {
  const Node& edge = nodes_[kEdge];
  TENURE_CHECK(!IsHole(kEdge) && !(edge.offset % kGranule).zero() && edge.size.zero());
  Bytes used;
  Bytes free;
  uint64_t rows = 1;
  uint64_t spans = 0;
  uint32_t before = kEdge;
  for (uint32_t node = edge.after; node != kEdge; before = node, node = nodes_[node].after) {
    const Node& row = nodes_[node];
    TENURE_CHECK(row.before == before && row.previous != kSpare);
    TENURE_CHECK(!row.size.zero() && (row.size % kGranule).zero());
    TENURE_CHECK((row.offset % kGranule).zero());
    TENURE_CHECK(before == kEdge || nodes_[before].end() <= row.offset);
    if (Touch(before, node)) {
      TENURE_CHECK(!IsHole(before) || !IsHole(node));
    } else {
      const auto span = spans_.find(row.offset);
      TENURE_CHECK(span != spans_.end() && span->second == node);
      ++spans;
    }
    (IsHole(node) ? free : used) += row.size;
    ++rows;
  }
  TENURE_CHECK(edge.before == before);
  TENURE_CHECK(spans == spans_.size());
  TENURE_CHECK(used == used_ && free == free_);
  for (uint32_t node = spare_; node != kEdge; node = nodes_[node].next) {
    TENURE_CHECK(nodes_[node].previous == kSpare);
    ++rows;
  }
  TENURE_CHECK(rows == nodes_.size());
}

void OffsetAllocator::ValidateBins() const {
  Bytes free;
  uint64_t largest_count = 0;
  for (uint32_t level = 0; level < kLevels; ++level) {
    const uint32_t first = level * kBinsPerLevel;
    const uint32_t marks = level_bins_[level];
    TENURE_CHECK(((levels_ >> level & 1) != 0) == (marks != 0));
    // Nearly all levels are empty, and looked at the more quickly.
    static_assert(kEdge == 0);
    uint32_t any = 0;
    for (uint32_t i = 0; i < kBinsPerLevel; ++i) any |= bins_[first + i];
    TENURE_CHECK((any != 0) == (marks != 0));
    for (uint32_t i = 0; marks != 0 && i < kBinsPerLevel; ++i) {
      TENURE_CHECK((marks >> i & 1) == (bins_[first + i] != kEdge));
      uint32_t previous = kEdge;
      for (uint32_t node = bins_[first + i]; node != kEdge;
           previous = node, node = nodes_[node].next) {
        const Node& hole = nodes_[node];
        TENURE_CHECK(IsHole(node) && hole.previous == previous);
        TENURE_CHECK(BinOf(hole.size) == first + i);
        TENURE_CHECK(hole.size <= largest_);
        if (hole.size == largest_) ++largest_count;
        free += hole.size;
      }
    }
  }
  TENURE_CHECK(free == free_);
  TENURE_CHECK(largest_count == largest_count_);
}

}  // namespace tenure
