#include "core/arena/offset_allocator.h"

#include <algorithm>
#include <bit>

namespace tenure {
namespace {

// How many holes of a request's own bin are tried before a bin that surely fits is taken.
constexpr int kTries = 4;

constexpr bool IsAligned(Bytes bytes) { return (bytes % OffsetAllocator::kGranule).zero(); }
constexpr bool IsRange(Range range) {
  return !range.empty() && IsAligned(range.begin()) && IsAligned(range.end());
}

}  // namespace

OffsetAllocator::OffsetAllocator() {
  // No multiple of the granule, so that it touches nothing.
  nodes_.push_back({.offset = Bytes(1),
                    .size = Bytes(0),
                    .before = kEdge,
                    .after = kEdge,
                    .previous = kUsed,
                    .next = kEdge});
}

uint32_t OffsetAllocator::BinOf(Bytes size) {
  // As a float would have it: the first five bits after the highest one say which bin of its level.
  const uint64_t granules = size / kGranule;
  const auto shift = static_cast<uint32_t>(std::bit_width(granules | kBinsPerLevel)) -
                     static_cast<uint32_t>(std::bit_width(kBinsPerLevel));
  return shift * kBinsPerLevel + static_cast<uint32_t>(granules >> shift);
}

uint32_t OffsetAllocator::FirstSureBin(Bytes size) { return BinOf(size - kGranule) + 1; }

uint32_t OffsetAllocator::FirstBinFrom(uint32_t bin) const {
  uint32_t level = bin / kBinsPerLevel;
  uint32_t bins = level_bins_[level] & (UINT32_MAX << (bin % kBinsPerLevel));
  if (bins == 0) {
    const uint64_t levels = levels_ & (UINT64_MAX << (level + 1));
    if (levels == 0) return kNoBin;
    level = static_cast<uint32_t>(std::countr_zero(levels));
    bins = level_bins_[level];
  }
  return level * kBinsPerLevel + static_cast<uint32_t>(std::countr_zero(bins));
}

uint32_t OffsetAllocator::LastBin() const {
  if (levels_ == 0) return kNoBin;
  const auto level = static_cast<uint32_t>(std::bit_width(levels_) - 1);
  return level * kBinsPerLevel + static_cast<uint32_t>(std::bit_width(level_bins_[level]) - 1);
}

void OffsetAllocator::Bin(uint32_t node) {
  Node& hole = nodes_[node];
  const uint32_t bin = BinOf(hole.size);
  hole.previous = kEdge;
  hole.next = bins_[bin];
  if (hole.next != kEdge) nodes_[hole.next].previous = node;
  bins_[bin] = node;
  levels_ |= uint64_t{1} << (bin / kBinsPerLevel);
  level_bins_[bin / kBinsPerLevel] |= uint32_t{1} << (bin % kBinsPerLevel);
  if (hole.size > largest_) {
    largest_ = hole.size;
    largest_count_ = 1;
  } else if (hole.size == largest_) {
    ++largest_count_;
  }
}

void OffsetAllocator::Unbin(uint32_t node) {
  const Node& hole = nodes_[node];
  if (hole.next != kEdge) nodes_[hole.next].previous = hole.previous;
  if (hole.previous != kEdge) {
    nodes_[hole.previous].next = hole.next;
  } else {
    const uint32_t bin = BinOf(hole.size);
    bins_[bin] = hole.next;
    if (hole.next == kEdge) {
      uint32_t& bins = level_bins_[bin / kBinsPerLevel];
      bins &= ~(uint32_t{1} << (bin % kBinsPerLevel));
      if (bins == 0) levels_ &= ~(uint64_t{1} << (bin / kBinsPerLevel));
    }
  }
  if (hole.size == largest_) --largest_count_;
}

uint32_t OffsetAllocator::NewNode(Range range, uint32_t before, uint32_t after) {
  uint32_t node = spare_;
  if (node == kEdge) {
    TENURE_CHECK(nodes_.size() < kMostRows);
    node = static_cast<uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    spare_ = nodes_[node].next;
  }
  nodes_[node] = {.offset = range.begin(),
                  .size = range.size(),
                  .before = before,
                  .after = after,
                  .previous = kUsed,
                  .next = kEdge};
  nodes_[before].after = node;
  nodes_[after].before = node;
  return node;
}

void OffsetAllocator::Drop(uint32_t node) {
  Node& dropped = nodes_[node];
  nodes_[dropped.before].after = dropped.after;
  nodes_[dropped.after].before = dropped.before;
  dropped.previous = kSpare;
  dropped.next = spare_;
  spare_ = node;
}

uint32_t OffsetAllocator::Cut(uint32_t node, Bytes size) {
  const Range rest(nodes_[node].offset + size, nodes_[node].end());
  nodes_[node].size = size;
  return NewNode(rest, node, nodes_[node].after);
}

void OffsetAllocator::MakeHole(uint32_t node) {
  const uint32_t after = nodes_[node].after;
  if (IsHole(after) && Touch(node, after)) {
    Unbin(after);
    nodes_[node].size += nodes_[after].size;
    Drop(after);
  }
  const uint32_t before = nodes_[node].before;
  if (IsHole(before) && Touch(before, node)) {
    Unbin(before);
    nodes_[before].size += nodes_[node].size;
    Drop(node);
    node = before;
  }
  Bin(node);
}

void OffsetAllocator::Add(Range range) {
  TENURE_CHECK(IsRange(range));
  const auto span_after = spans_.lower_bound(range.begin());
  const uint32_t after = span_after == spans_.end() ? kEdge : span_after->second;
  const uint32_t before = nodes_[after].before;
  TENURE_CHECK(after == kEdge || range.end() <= nodes_[after].offset);
  TENURE_CHECK(before == kEdge || nodes_[before].end() <= range.begin());
  const uint32_t node = NewNode(range, before, after);
  if (Touch(node, after)) spans_.erase(span_after);
  if (!Touch(before, node)) spans_.emplace(range.begin(), node);
  free_ += range.size();
  MakeHole(node);
}

void OffsetAllocator::Remove(Range range) {
  TENURE_CHECK(IsRange(range));
  uint32_t node = FindHoleAround(range);
  TENURE_CHECK(node != kEdge);
  Unbin(node);
  if (nodes_[node].offset < range.begin()) {
    const uint32_t front = node;
    node = Cut(node, range.begin() - nodes_[node].offset);
    Bin(front);
  }
  if (range.end() < nodes_[node].end()) Bin(Cut(node, range.size()));
  const uint32_t after = nodes_[node].after;
  spans_.erase(range.begin());
  if (Touch(node, after)) spans_.emplace(range.end(), after);
  free_ -= range.size();
  Drop(node);
}

uint32_t OffsetAllocator::FindHoleAround(Range range) const {
  for (uint32_t bin = FirstBinFrom(BinOf(range.size())); bin != kNoBin;
       bin = FirstBinFrom(bin + 1)) {
    for (uint32_t node = bins_[bin]; node != kEdge; node = nodes_[node].next) {
      const Node& hole = nodes_[node];
      if (hole.offset <= range.begin() && range.end() <= hole.end()) return node;
    }
  }
  return kEdge;
}

std::optional<Bytes> OffsetAllocator::Fit(uint32_t node, Bytes size, Bytes alignment) const {
  const Node& hole = nodes_[node];
  const uint64_t mask = alignment.count() - 1;
  // What must be left out in front. No offset is too large for this: it wraps around at a multiple.
  const Bytes front((0 - hole.offset.count()) & mask);
  if (hole.size < size || hole.size - size < front) return std::nullopt;
  return hole.offset + front;
}

uint32_t OffsetAllocator::FindHole(Bytes size, Bytes alignment) const {
  const uint32_t own = BinOf(size);
  uint32_t node = bins_[own];
  for (int i = 0; i < kTries && node != kEdge; ++i, node = nodes_[node].next) {
    if (Fit(node, size, alignment).has_value()) return node;
  }
  const Bytes slack = alignment - kGranule;  // what an aligned block may have to leave out
  if (slack <= free_ - size) {
    const uint32_t sure = FirstBinFrom(FirstSureBin(size + slack));
    if (sure != kNoBin) return bins_[sure];
  }
  for (uint32_t bin = FirstBinFrom(own); bin != kNoBin; bin = FirstBinFrom(bin + 1)) {
    for (node = bins_[bin]; node != kEdge; node = nodes_[node].next) {
      if (Fit(node, size, alignment).has_value()) return node;
    }
  }
  return kEdge;
}

std::optional<OffsetAllocator::Block> OffsetAllocator::Allocate(Bytes size, Bytes alignment) {
  TENURE_CHECK(!size.zero());
  TENURE_CHECK(!alignment.zero() && (alignment.count() & (alignment.count() - 1)) == 0);
  if (size > free_) return std::nullopt;
  size = AlignUp(size, kGranule);
  alignment = std::max(alignment, kGranule);
  uint32_t node = FindHole(size, alignment);
  if (node == kEdge) return std::nullopt;
  const Bytes front = *Fit(node, size, alignment) - nodes_[node].offset;
  Unbin(node);
  if (!front.zero()) {
    const uint32_t hole = node;
    node = Cut(node, front);
    Bin(hole);
  }
  if (size < nodes_[node].size) Bin(Cut(node, size));
  nodes_[node].previous = kUsed;
  used_ += size;
  free_ -= size;
  return Block{.offset = nodes_[node].offset, .size = size, .node = node};
}

bool OffsetAllocator::IsLive(const Block& block) const {
  if (block.node == kEdge || block.node >= nodes_.size()) return false;
  const Node& node = nodes_[block.node];
  return node.previous == kUsed && node.offset == block.offset && node.size == block.size;
}

void OffsetAllocator::Free(const Block& block) {
  TENURE_CHECK(IsLive(block));
  used_ -= block.size;
  free_ += block.size;
  MakeHole(block.node);
}

OffsetAllocator::Block OffsetAllocator::Split(Block& block, Bytes first_size) {
  TENURE_CHECK(IsLive(block));
  TENURE_CHECK(!first_size.zero() && first_size < block.size && IsAligned(first_size));
  const uint32_t second = Cut(block.node, first_size);
  block.size = first_size;
  return Block{.offset = nodes_[second].offset, .size = nodes_[second].size, .node = second};
}

void OffsetAllocator::ForEachFree(Bytes at_least, const std::function<void(Range)>& visit) const {
  for (uint32_t bin = FirstBinFrom(BinOf(at_least)); bin != kNoBin; bin = FirstBinFrom(bin + 1)) {
    for (uint32_t node = bins_[bin]; node != kEdge; node = nodes_[node].next) {
      if (nodes_[node].size >= at_least) visit(Range(nodes_[node].offset, nodes_[node].end()));
    }
  }
}

OffsetAllocator::Usage OffsetAllocator::usage() const {
  if (largest_count_ == 0) {
    largest_ = Bytes(0);
    const uint32_t last = LastBin();
    for (uint32_t node = last == kNoBin ? kEdge : bins_[last]; node != kEdge;
         node = nodes_[node].next) {
      if (nodes_[node].size > largest_) {
        largest_ = nodes_[node].size;
        largest_count_ = 0;
      }
      if (nodes_[node].size == largest_) ++largest_count_;
    }
  }
  return Usage{.used = used_, .free = free_, .largest_free = largest_};
}

}  // namespace tenure
