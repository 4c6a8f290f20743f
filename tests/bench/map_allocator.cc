#include "tests/bench/map_allocator.h"

#include <iterator>

namespace tenure::bench {
namespace {

constexpr Bytes kGranule = Bytes(256);

}  // namespace

void MapAllocator::Insert(ByOffset::iterator before, Bytes offset, Bytes size) {
  by_offset_.emplace_hint(before, offset, size);
  if (policy_ != FitPolicy::kFirst) by_size_.emplace(size, offset);
}

MapAllocator::ByOffset::iterator MapAllocator::Erase(ByOffset::iterator hole) {
  if (policy_ != FitPolicy::kFirst) by_size_.erase({hole->second, hole->first});
  return by_offset_.erase(hole);
}

MapAllocator::ByOffset::iterator MapAllocator::Find(Bytes size) {
  if (policy_ == FitPolicy::kFirst) {
    auto hole = by_offset_.begin();
    while (hole != by_offset_.end() && hole->second < size) ++hole;
    return hole;
  }
  if (by_size_.empty()) return by_offset_.end();
  const auto hole = policy_ == FitPolicy::kBest ? by_size_.lower_bound({size, Bytes(0)})
                                                : std::prev(by_size_.end());
  if (hole == by_size_.end() || hole->first < size) return by_offset_.end();
  return by_offset_.find(hole->second);
}

std::optional<MapAllocator::Block> MapAllocator::Allocate(Bytes size) {
  size = AlignUp(size, kGranule);
  const auto hole = Find(size);
  if (hole == by_offset_.end()) {
    if (end_ - top_ < size) return std::nullopt;
    const Block block{.offset = top_, .size = size};
    top_ += size;
    return block;
  }
  const Block block{.offset = hole->first, .size = size};
  const Bytes left = hole->second - size;
  const auto after = Erase(hole);
  if (!left.zero()) Insert(after, block.offset + size, left);
  return block;
}

void MapAllocator::Free(const Block& block) {
  Bytes offset = block.offset;
  Bytes size = block.size;
  auto after = by_offset_.lower_bound(offset);
  if (after != by_offset_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      after = Erase(before);
    }
  }
  if (after != by_offset_.end() && after->first == offset + size) {
    size += after->second;
    after = Erase(after);
  }
  if (offset + size == top_) {
    top_ = offset;
  } else {
    Insert(after, offset, size);
  }
}

}  // namespace tenure::bench
