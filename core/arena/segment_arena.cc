#include "core/arena/segment_arena.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tenure {

std::vector<Bytes> SegmentSizes(Bytes size, Bytes segment_size, Bytes granule) {
  TENURE_CHECK(!segment_size.zero() && (segment_size % granule).zero());
  std::vector<Bytes> sizes(size / segment_size, segment_size);
  uint64_t granules = AlignUp(size % segment_size, granule) / granule;
  while (granules > 0) {
    const uint64_t largest = std::bit_floor(granules);
    sizes.push_back(granule * largest);
    granules -= largest;
  }
  return sizes;
}

SegmentArena::SegmentArena(const SegmentArenaOptions& options) : options_(options) {
  TENURE_CHECK((options.capacity % options.granule).zero());
  TENURE_CHECK(!options.segment_size.zero() && (options.segment_size % options.granule).zero());
}

std::vector<Bytes> SegmentArena::Claim::MissingSizes() const {
  std::vector<Bytes> sizes;
  for (const Slot& slot : slots) {
    if (!slot.segment.has_value()) sizes.push_back(slot.size);
  }
  return sizes;
}

Bytes SegmentArena::RegionBytes(Bytes size) const { return AlignUp(size, options_.granule); }

std::vector<Bytes> SegmentArena::SizesFor(Bytes size) const {
  if (!options_.single_segment) return SegmentSizes(size, options_.segment_size, options_.granule);
  return size.zero() ? std::vector<Bytes>() : std::vector<Bytes>{RegionBytes(size)};
}

std::optional<SegmentArena::Claim> SegmentArena::ClaimRoom(Bytes size) {
  Claim claim;
  claim.bytes = RegionBytes(size);
  if (claim.bytes > available()) return std::nullopt;

  const Bytes room = unbacked();
  Bytes missing;
  for (const Bytes wanted : SizesFor(size)) {
    Claim::Slot& slot = claim.slots.emplace_back(Claim::Slot{.size = wanted, .segment = {}});
    const auto cached = cache_.find(wanted);
    if (cached == cache_.end()) {
      missing += wanted;
      continue;
    }
    slot.segment = std::move(cached->second.back().segment);
    cached->second.pop_back();
    if (cached->second.empty()) cache_.erase(cached);
    cached_ -= wanted;
  }
  // What is left in the cache fitted nothing: it makes way for what is missing, the largest first
  // so that few Segments go.
  Bytes evicted;
  while (room + evicted < missing) {
    const auto largest = std::prev(cache_.end());
    claim.evicted.push_back(std::move(largest->second.front().segment));
    largest->second.pop_front();
    evicted += largest->first;
    cached_ -= largest->first;
    if (largest->second.empty()) cache_.erase(largest);
  }
  // Until they are destroyed, they are nobody else's room.
  if (!claim.evicted.empty()) claim.spare = room + evicted - missing;
  leaving_ += claim.spare;
  claimed_ += claim.bytes;
  return claim;
}

void SegmentArena::Return(std::vector<Segment> segments, Bytes never_created, Instant now) {
  claimed_ -= never_created;
  for (Segment& segment : segments) {
    const Bytes size = segment.size();
    claimed_ -= size;
    cached_ += size;
    cache_[size].push_back(CachedSegment{.segment = std::move(segment), .since = now});
  }
}

std::vector<Segment> SegmentArena::TakeCachedBefore(Instant cutoff) {
  std::vector<Segment> taken;
  for (auto entry = cache_.begin(); entry != cache_.end();) {
    std::deque<CachedSegment>& queue = entry->second;
    while (!queue.empty() && queue.front().since <= cutoff) {
      taken.push_back(std::move(queue.front().segment));
      queue.pop_front();
      cached_ -= entry->first;
      leaving_ += entry->first;
    }
    entry = queue.empty() ? cache_.erase(entry) : std::next(entry);
  }
  return taken;
}

void SegmentArena::Leave(Bytes size) {
  claimed_ -= size;
  leaving_ += size;
}

void SegmentArena::Left(Bytes size) {
  leaving_ -= size;
  Destroyed(size);
}

uint64_t SegmentArena::cached_segments() const {
  uint64_t segments = 0;
  for (const auto& [size, cached] : cache_) segments += cached.size();
  return segments;
}

std::map<Bytes, size_t> SegmentArena::CachedSizes() const {
  std::map<Bytes, size_t> sizes;
  for (const auto& [size, queue] : cache_) sizes.emplace(size, queue.size());
  return sizes;
}

void SegmentArena::Validate() const {
  TENURE_CHECK(claimed_ + cached_ + leaving_ <= capacity());
  Bytes cached;
  for (const auto& [size, queue] : cache_) {
    TENURE_CHECK(!queue.empty());
    for (const CachedSegment& entry : queue) TENURE_CHECK(entry.segment.size() == size);
    cached += size * queue.size();
  }
  TENURE_CHECK(cached == cached_);
}

}  // namespace tenure
