#include "core/runtime/pool_range.h"

#include <algorithm>
#include <unordered_map>

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

std::vector<PoolRange::Gap> PoolRange::Gaps() const {
  std::unordered_map<uint64_t, Bytes> ending;
  std::unordered_map<uint64_t, Bytes> beginning;
  allocator_.ForEachFree(OffsetAllocator::kGranule, [&](Range free) {
    if (SlotOf(free.end()) == free.end()) ending[free.end().count()] = free.size();
    if (SlotOf(free.begin()) == free.begin()) beginning[free.begin().count()] = free.size();
  });
  const auto found = [](const auto& borders, Bytes border) {
    const auto entry = borders.find(border.count());
    return entry == borders.end() ? Bytes(0) : entry->second;
  };
  std::vector<Gap> gaps;
  Bytes begin = offsets_.begin();
  const auto close = [&](Bytes end) {
    if (begin < end) {
      gaps.push_back({.empty = Range(begin, end),
                      .free_before = found(ending, begin),
                      .free_after = found(beginning, end)});
    }
    begin = end + segment_size_;
  };
  for (const auto& [slot, unused] : slots_) close(slot);
  close(offsets_.end());
  return gaps;
}

std::optional<std::vector<Bytes>> PoolRange::PlanGrowth(Bytes size, Bytes alignment) const {
  size = AlignUp(size, OffsetAllocator::kGranule);
  std::optional<Range> best;
  const auto consider = [&](Range filled) {
    if (!best.has_value() || filled.size() < best->size()) best = filled;
  };
  for (const Gap& gap : Gaps()) {
    const Bytes border = gap.empty.begin();
    // From the left: behind what is free before the gap.
    const Bytes start = std::min(AlignUp(border - gap.free_before, alignment), border);
    const Bytes end = start + size;
    if (end <= gap.empty.end()) {
      consider(Range(border, AlignUp(end, segment_size_)));
    } else if (end <= gap.empty.end() + gap.free_after) {
      consider(gap.empty);
    }
    // From the right: so that it ends in what is free after the gap.
    const Bytes lacking = AlignUp(SaturatingSub(size, gap.free_after), segment_size_);
    if (!gap.free_after.zero() && lacking <= gap.empty.size()) {
      consider(Range(gap.empty.end() - lacking, gap.empty.end()));
    }
  }
  if (!best.has_value()) return std::nullopt;
  std::vector<Bytes> slots;
  for (Bytes slot = best->begin(); slot < best->end(); slot += segment_size_) slots.push_back(slot);
  return slots;
}

Bytes PoolRange::LargestFree(uint64_t most) const {
  Bytes largest = allocator_.usage().largest_free;
  for (const Gap& gap : Gaps()) {
    const uint64_t slots = std::min(most, gap.empty.size() / segment_size_);
    const Bytes filled = segment_size_ * slots;
    const Bytes reached = filled == gap.empty.size()
                              ? gap.free_before + filled + gap.free_after
                              : std::max(gap.free_before, gap.free_after) + filled;
    if (slots > 0) largest = std::max(largest, reached);
  }
  return largest;
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
