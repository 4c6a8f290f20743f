#include "core/device/free_ranges.h"

#include <iterator>

namespace tenure {

std::optional<Range> FreeRanges::Take(Bytes size) {
  TENURE_CHECK(!size.zero());
  for (auto part = free_.begin(); part != free_.end(); ++part) {
    if (part->second < size) continue;
    const Range taken(part->first, part->first + size);
    const Bytes left = part->second - size;
    free_.erase(part);
    if (!left.zero()) free_.emplace(taken.end(), left);
    return taken;
  }
  return std::nullopt;
}

void FreeRanges::Give(Range range) {
  if (range.empty()) return;
  auto next = free_.lower_bound(range.begin());
  TENURE_CHECK(next == free_.end() || range.end() <= next->first);
  Bytes end = range.end();
  if (next != free_.end() && next->first == end) {
    end += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    TENURE_CHECK(before->first + before->second <= range.begin());
    if (before->first + before->second == range.begin()) {
      before->second = end - before->first;
      return;
    }
  }
  free_.emplace(range.begin(), end - range.begin());
}

}  // namespace tenure
