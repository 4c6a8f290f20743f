#include "core/runtime/pool_range.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace tenure {

PoolRange::PoolRange(Range offsets, Bytes segment_size)
    : offsets_(offsets), segment_size_(segment_size) {
  TENURE_CHECK(SlotOf(offsets.begin()) == offsets.begin() &&
               SlotOf(offsets.end()) == offsets.end());
}

std::optional<PoolRange::Block> PoolRange::Allocate(Bytes size, Bytes alignment) {
  std::optional<Block> block = allocator_.Allocate(size, alignment);
  if (block.has_value()) Count(*block, 1);
  return block;
}

void PoolRange::Free(const Block& block) {
  Count(block, -1);
  allocator_.Free(block);
}

std::vector<PoolRange::Block> PoolRange::SplitBySlot(Block block) {
  TENURE_CHECK(SlotOf(block.offset) == block.offset && SlotOf(block.size) == block.size);
  std::vector<Block> parts;
  while (block.size > segment_size_) {
    const Block rest = allocator_.Split(block, segment_size_);
    parts.push_back(block);
    block = rest;
  }
  parts.push_back(block);
  return parts;
}

void PoolRange::Count(const Block& block, int change) {
  auto slot = slots_.find(SlotOf(block.offset));
  for (; slot != slots_.end() && slot->first < block.offset + block.size; ++slot) {
    slot->second.blocks += static_cast<uint32_t>(change);
  }
}

std::vector<PoolRange::Stretch> PoolRange::Stretches() const {
  Stretch pieces;
  allocator_.ForEachFree(OffsetAllocator::kGranule, [&](Range free) {
    if (SlotOf(free.begin()) == free.begin() || SlotOf(free.end()) == free.end()) {
      pieces.push_back({.range = free, .empty = false});
    }
  });
  Bytes begin = offsets_.begin();
  const auto end_gap = [&](Bytes end) {
    if (begin < end) pieces.push_back({.range = Range(begin, end), .empty = true});
    begin = end + segment_size_;
  };
  for (const auto& [slot, unused] : slots_) end_gap(slot);
  end_gap(offsets_.end());
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.range.begin() < b.range.begin(); });

  std::vector<Stretch> stretches;
  for (const Piece& piece : pieces) {
    const bool goes_on =
        !stretches.empty() && stretches.back().back().range.end() == piece.range.begin();
    if (!goes_on) stretches.emplace_back();
    stretches.back().push_back(piece);
  }
  return stretches;
}

// A block that needs the fewest slots can be moved, without needing others, until it begins as far
// left or ends as far right in a piece as it may; so no other offsets are tried.
std::optional<std::vector<Bytes>> PoolRange::PlanGrowth(Bytes size, Bytes alignment) const {
  TENURE_CHECK(alignment <= segment_size_);
  if (size > offsets_.size()) return std::nullopt;
  size = AlignUp(size, OffsetAllocator::kGranule);
  std::vector<Bytes> taken;
  for (const auto& [slot, unused] : slots_) taken.push_back(slot);
  const auto empty_before = [&](Bytes slot) {
    const auto first = std::lower_bound(taken.begin(), taken.end(), slot);
    return (slot - offsets_.begin()) / segment_size_ - static_cast<uint64_t>(first - taken.begin());
  };

  std::optional<Range> best;
  std::pair<uint64_t, uint64_t> fewest_lowest;
  for (const Stretch& stretch : Stretches()) {
    const Range bounds(stretch.front().range.begin(), stretch.back().range.end());
    const auto consider = [&](Bytes start) {
      if (start < bounds.begin() || start + size > bounds.end()) return;
      const Range touched(SlotOf(start), AlignUp(start + size, segment_size_));
      const uint64_t first = empty_before(touched.begin());
      const std::pair slots(empty_before(touched.end()) - first, first);
      if (best.has_value() && slots >= fewest_lowest) return;
      best = touched;
      fewest_lowest = slots;
    };
    for (const Piece& piece : stretch) {
      consider(AlignUp(piece.range.begin(), alignment));
      if (size <= piece.range.end()) consider(AlignDown(piece.range.end() - size, alignment));
    }
  }
  if (!best.has_value()) return std::nullopt;
  std::vector<Bytes> slots;
  for (Bytes slot = best->begin(); slot < best->end(); slot += segment_size_) {
    if (!slots_.contains(slot)) slots.push_back(slot);
  }
  return slots;
}

Bytes PoolRange::LargestFree(uint64_t most) const {
  Bytes largest = allocator_.usage().largest_free;
  for (Stretch& stretch : Stretches()) {
    largest = std::max(largest, LongestFrom(stretch, most));
    std::reverse(stretch.begin(), stretch.end());
    largest = std::max(largest, LongestFrom(stretch, most));
  }
  return largest;
}

Bytes PoolRange::LongestFrom(const Stretch& pieces, uint64_t most) const {
  const auto slots = [&](size_t i) {
    return pieces[i].empty ? pieces[i].range.size() / segment_size_ : 0;
  };
  Bytes longest;
  // Of the pieces [first, end), which may be filled as a whole.
  Bytes bytes;
  uint64_t filled = 0;
  size_t end = 0;
  for (size_t first = 0; first < pieces.size(); ++first) {
    for (; end < pieces.size() && slots(end) <= most - filled; ++end) {
      bytes += pieces[end].range.size();
      filled += slots(end);
    }
    const uint64_t part = end < pieces.size() ? most - filled : 0;
    longest = std::max(longest, bytes + segment_size_ * part);
    if (first == end) {
      ++end;
    } else {
      bytes -= pieces[first].range.size();
      filled -= slots(first);
    }
  }
  return longest;
}

Range PoolRange::LargestHole() const {
  Range largest;
  const Bytes size = allocator_.usage().largest_free;
  if (size.zero()) return largest;
  allocator_.ForEachFree(size, [&](Range free) {
    if (free.size() == size) largest = free;
  });
  return largest;
}

PoolRange::Slot& PoolRange::At(Bytes slot, State expected) {
  const auto found = slots_.find(slot);
  TENURE_CHECK(found != slots_.end() && found->second.state == expected);
  return found->second;
}

void PoolRange::Expect(Bytes slot) {
  TENURE_CHECK(SlotOf(slot) == slot && offsets_.begin() <= slot && slot < offsets_.end());
  TENURE_CHECK(slots_.try_emplace(slot).second);
}

void PoolRange::Fill(Bytes slot) {
  At(slot, State::kComing).state = State::kFilled;
  allocator_.Add(Range(slot, slot + segment_size_));
}

void PoolRange::Close(Bytes slot) {
  Slot& closing = At(slot, State::kFilled);
  TENURE_CHECK(closing.blocks == 0);
  closing.state = State::kClosed;
  allocator_.Remove(Range(slot, slot + segment_size_));
}

void PoolRange::Clear(Bytes slot) {
  const auto found = slots_.find(slot);
  TENURE_CHECK(found != slots_.end() && found->second.state != State::kFilled);
  slots_.erase(found);
}

uint32_t PoolRange::BlocksIn(Bytes slot) const {
  const auto found = slots_.find(slot);
  return found == slots_.end() ? 0 : found->second.blocks;
}

void PoolRange::Validate() const {
  allocator_.Validate();
  Bytes filled;
  for (const auto& [offset, slot] : slots_) {
    if (slot.state == State::kFilled) filled += segment_size_;
    TENURE_CHECK(slot.state == State::kFilled || slot.blocks == 0);
  }
  const OffsetAllocator::Usage usage = allocator_.usage();
  TENURE_CHECK(usage.used + usage.free == filled);
}

}  // namespace tenure
