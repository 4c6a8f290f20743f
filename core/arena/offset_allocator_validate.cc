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
  for (uint32_t bin = 0; bin < kNoBin; ++bin) {
    const uint32_t level = bin / kBinsPerLevel;
    const bool marked = (level_bins_[level] >> (bin % kBinsPerLevel) & 1) != 0;
    TENURE_CHECK(marked == (bins_[bin] != kEdge));
    TENURE_CHECK(((levels_ >> level & 1) != 0) == (level_bins_[level] != 0));
    uint32_t previous = kEdge;
    for (uint32_t node = bins_[bin]; node != kEdge; previous = node, node = nodes_[node].next) {
      const Node& hole = nodes_[node];
      TENURE_CHECK(IsHole(node) && hole.previous == previous);
      TENURE_CHECK(BinOf(hole.size) == bin);
      TENURE_CHECK(hole.size <= largest_);
      if (hole.size == largest_) ++largest_count;
      free += hole.size;
    }
  }
  TENURE_CHECK(free == free_);
  TENURE_CHECK(largest_count == largest_count_);
}

}  // namespace tenure
