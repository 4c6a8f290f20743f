#include <algorithm>

#include "core/runtime/pool_map.h"
#include "core/runtime/pool_table.h"

namespace tenure {
namespace {

PoolSegmentState StateOf(const PoolSegment& segment) {
  if (!segment.segment.has_value()) return PoolSegmentState::kComing;
  if (segment.closed) return PoolSegmentState::kLeaving;
  return segment.granted.has_value() ? PoolSegmentState::kGranted : PoolSegmentState::kOpen;
}

}  // namespace

Bytes PoolTable::LargestFree(uint64_t most) const {
  const uint64_t slots = shape_.kind_bytes / shape_.segment_size;
  Bytes largest = shape_.segment_size * std::min(most, slots);
  for (const auto& [id, entry] : pools_) {
    if (entry.live) largest = std::max(largest, entry.pool.LargestFree(most));
  }
  return largest;
}

std::vector<PoolMap> PoolTable::Maps() const {
  std::vector<PoolMap> maps;
  maps.reserve(pools_.size());
  for (const auto& [id, entry] : pools_) {
    PoolMap& map = maps.emplace_back(PoolMap{.id = id,
                                             .session = entry.pool.session(),
                                             .live = entry.live,
                                             .expires = entry.expires,
                                             .kind_bytes = shape_.kind_bytes,
                                             .segment_size = shape_.segment_size,
                                             .segments = {},
                                             .buffers = entry.pool.Buffers()});
    map.segments.reserve(entry.pool.segments().size());
    for (const auto& [offset, segment] : entry.pool.segments()) {
      map.segments.push_back({.offset = offset,
                              .state = StateOf(segment),
                              .shared = segment.share.valid(),
                              .unanswered = segment.unanswered});
    }
  }
  return maps;
}

}  // namespace tenure
