#include "core/plan/free_space.h"

#include <algorithm>
#include <bit>

namespace tenure {

FreeSpace::FreeSpace(uint32_t sections)
    : width_(std::bit_ceil(std::max<uint32_t>(sections, 1))), nodes_(2 * size_t{width_}) {}

void FreeSpace::Clear() {
  for (Node& node : nodes_) {
    node.whole.clear();
    node.any.clear();
  }
}

void FreeSpace::Add(Intervals& intervals, uint64_t begin, uint64_t end) {
  const auto first = std::ranges::lower_bound(intervals, begin, {}, &Interval::end);
  if (first == intervals.end() || first->begin > end) {
    intervals.insert(first, {begin, end});
    return;
  }
  first->begin = std::min(first->begin, begin);
  first->end = std::max(first->end, end);
  auto next = first + 1;
  for (; next != intervals.end() && next->begin <= first->end; ++next) {
    first->end = std::max(first->end, next->end);
  }
  intervals.erase(first + 1, next);
}

uint64_t FreeSpace::Fit(const Intervals& intervals, uint64_t from, uint64_t size,
                        uint64_t alignment) {
  auto at = std::ranges::upper_bound(intervals, from, {}, &Interval::end);
  ++words_;
  for (; at != intervals.end() && at->begin < from + size; ++at) {
    from = std::max(from, (at->end + alignment - 1) & ~(alignment - 1));
    ++words_;
  }
  return from;
}

uint64_t FreeSpace::Find(std::span<const SectionRange> ranges, uint64_t size, uint64_t alignment) {
  met_.clear();
  for (const SectionRange& range : ranges) Meet(1, 0, width_, range);
  uint64_t found = 0;
  // Goes round until all agree in turn.
  size_t agreeing = 0;
  for (size_t i = 0; agreeing < met_.size(); i = i + 1 == met_.size() ? 0 : i + 1) {
    const uint64_t fit = Fit(*met_[i], found, size, alignment);
    agreeing = fit == found ? agreeing + 1 : 1;
    found = fit;
  }
  return found;
}

void FreeSpace::Meet(uint32_t node, uint32_t first, uint32_t width, const SectionRange& range) {
  if (range.end <= first || first + width <= range.begin || nodes_[node].any.empty()) return;
  if (range.begin <= first && first + width <= range.end) {
    met_.push_back(&nodes_[node].any);
    return;
  }
  if (!nodes_[node].whole.empty()) met_.push_back(&nodes_[node].whole);
  Meet(2 * node, first, width / 2, range);
  Meet(2 * node + 1, first + width / 2, width / 2, range);
}

void FreeSpace::Take(std::span<const SectionRange> ranges, uint64_t begin, uint64_t end) {
  for (const SectionRange& range : ranges) TakeIn(1, 0, width_, range, {begin, end});
}

void FreeSpace::TakeIn(uint32_t node, uint32_t first, uint32_t width, const SectionRange& range,
                       const Interval& taken) {
  if (range.end <= first || first + width <= range.begin) return;
  ++words_;
  Add(nodes_[node].any, taken.begin, taken.end);
  if (range.begin <= first && first + width <= range.end) {
    Add(nodes_[node].whole, taken.begin, taken.end);
    return;
  }
  TakeIn(2 * node, first, width / 2, range, taken);
  TakeIn(2 * node + 1, first + width / 2, width / 2, range, taken);
}

}  // namespace tenure
