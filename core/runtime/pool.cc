#include "core/runtime/pool.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/check.h"

namespace tenure {
namespace {

PoolRange RangeOfKind(const Pool::Shape& shape, BufferKind kind) {
  const Bytes begin = shape.kind_bytes * static_cast<uint64_t>(kind);
  return PoolRange(Range(begin, begin + shape.kind_bytes), shape.segment_size);
}

}  // namespace

Pool::Pool(PoolId id, SessionId session, const Shape& shape)
    : id_(id),
      session_(session),
      shape_(shape),
      ranges_{RangeOfKind(shape, BufferKind::kActivation),
              RangeOfKind(shape, BufferKind::kWorkspace), RangeOfKind(shape, BufferKind::kIo)} {}

// The largest first: what is small finds a place beside them, and not the other way round. Segments
// that must come are taken as if they were there, so that all of them are asked for at once.
Pool::Placement Pool::Place(std::span<const BufferSpec> specs) {
  TENURE_CHECK(!specs.empty());
  std::vector<size_t> order(specs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return specs[a].size > specs[b].size; });

  Placement placement;
  std::vector<std::optional<PoolRange::Block>> blocks(specs.size());
  bool possible = true;
  for (const size_t i : order) {
    const BufferSpec& spec = specs[i];
    PoolRange& range = RangeOf(spec.kind);
    blocks[i] = range.Allocate(spec.size, spec.alignment);
    if (blocks[i].has_value()) continue;
    const std::optional<std::vector<Bytes>> slots = range.PlanGrowth(spec.size, spec.alignment);
    possible = slots.has_value();
    if (!possible) break;
    TakeBack(*slots);
    placement.missing.insert(placement.missing.end(), slots->begin(), slots->end());
    blocks[i] = range.Allocate(spec.size, spec.alignment);
    TENURE_CHECK(blocks[i].has_value());
  }

  if (possible && placement.missing.empty()) {
    for (const auto& block : blocks) placement.blocks.push_back(*block);
    return placement;
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].has_value()) RangeOf(specs[i].kind).Free(*blocks[i]);
  }
  SetAside(placement.missing);
  if (!possible) placement.missing.clear();
  return placement;
}

Pool::Placement Pool::PlaceSegments(BufferKind kind, Bytes bytes) {
  if (bytes > shape_.kind_bytes) return {};
  const BufferSpec spec{
      .size = AlignUp(bytes, shape_.segment_size), .alignment = shape_.segment_size, .kind = kind};
  return Place({&spec, 1});
}

Buffer Pool::AddBuffer(BufferId id, const BufferSpec& spec, const PoolRange::Block& block,
                       Instant now) {
  const Buffer buffer{.id = id,
                      .place = Range(block.offset, block.offset + block.size),
                      .requested = spec.size,
                      .kind = spec.kind};
  buffers_.emplace(
      id, Held{.buffer = buffer, .block = block, .since = now, .may_be_idle = spec.may_be_idle});
  bytes_.blocks += block.size;
  if (spec.may_be_idle) bytes_.maybe_idle += block.size;
  bytes_.requested += spec.size;
  return buffer;
}

std::vector<PoolMap::BufferPlace> Pool::Buffers() const {
  std::vector<PoolMap::BufferPlace> places;
  places.reserve(buffers_.size());
  for (const auto& [id, held] : buffers_) {
    places.push_back({.buffer = held.buffer, .since = held.since});
  }
  return places;
}

std::vector<Bytes> Pool::Grant(BufferKind kind, const PoolRange::Block& block) {
  bytes_.blocks += block.size;
  bytes_.requested += block.size;
  bytes_.granted += block.size;
  std::vector<Bytes> offsets;
  for (const PoolRange::Block& part : RangeOf(kind).SplitBySlot(block)) {
    segments_.at(part.offset).granted = part;
    offsets.push_back(part.offset);
  }
  return offsets;
}

void Pool::FreeBlock(PoolRange& range, const PoolRange::Block& block, Bytes requested,
                     Instant now) {
  range.Free(block);
  bytes_.blocks -= block.size;
  bytes_.requested -= requested;
  auto segment = segments_.find(AlignDown(block.offset, shape_.segment_size));
  for (; segment != segments_.end() && segment->first < block.offset + block.size; ++segment) {
    segment->second.unused_since = now;
  }
}

std::optional<Pool::Released> Pool::Release(BufferId id, Instant now) {
  const auto found = buffers_.find(id);
  if (found == buffers_.end()) return std::nullopt;
  const Held& held = found->second;
  const Released released{.kind = held.buffer.kind, .since = held.since};
  FreeBlock(RangeOf(held.buffer.kind), held.block, held.buffer.requested, now);
  if (held.may_be_idle) bytes_.maybe_idle -= held.block.size;
  buffers_.erase(found);
  return released;
}

std::vector<BufferId> Pool::ReleaseAll(Instant now) {
  std::vector<BufferId> released;
  for (const auto& [id, held] : buffers_) released.push_back(id);
  for (const BufferId id : released) Release(id, now);
  for (const auto& [offset, segment] : segments_) {
    if (segment.segment.has_value() && !segment.closed) Close(offset, now);
  }
  return released;
}

void Pool::Expect(Bytes offset) {
  RangeAt(offset).Expect(offset);
  segments_.try_emplace(offset);
  bytes_.coming += shape_.segment_size;
}

void Pool::Fill(Bytes offset, Segment segment, Instant now) {
  PoolSegment& filled = segments_.at(offset);
  TENURE_CHECK(!filled.segment.has_value() && segment.size() == shape_.segment_size);
  RangeAt(offset).Fill(offset);
  filled.segment = std::move(segment);
  filled.unused_since = now;
  bytes_.coming -= shape_.segment_size;
  bytes_.segments += shape_.segment_size;
}

void Pool::Abandon(Bytes offset) {
  TENURE_CHECK(!segments_.at(offset).segment.has_value());
  RangeAt(offset).Clear(offset);
  segments_.erase(offset);
  bytes_.coming -= shape_.segment_size;
}

PoolSegment* Pool::Find(Bytes offset) {
  const auto found = segments_.find(offset);
  return found == segments_.end() ? nullptr : &found->second;
}

bool Pool::Unused(Bytes offset) const {
  const auto found = segments_.find(offset);
  return found != segments_.end() && found->second.segment.has_value() && !found->second.closed &&
         RangeAt(offset).BlocksIn(offset) == 0;
}

bool Pool::IsGranted(Bytes offset) const {
  const auto found = segments_.find(offset);
  return found != segments_.end() && found->second.granted.has_value();
}

void Pool::Close(Bytes offset, Instant now) {
  PoolSegment& segment = segments_.at(offset);
  TENURE_CHECK(segment.segment.has_value() && !segment.closed);
  if (segment.granted.has_value()) {
    FreeBlock(RangeAt(offset), *segment.granted, segment.granted->size, now);
    segment.granted.reset();
    bytes_.granted -= shape_.segment_size;
  }
  RangeAt(offset).Close(offset);
  segment.closed = true;
}

void Pool::MarkUnanswered(Bytes offset) {
  PoolSegment& segment = segments_.at(offset);
  TENURE_CHECK(segment.closed && !segment.unanswered);
  segment.answer_by.reset();
  segment.unanswered = true;
  bytes_.unanswered += shape_.segment_size;
}

Segment Pool::Take(Bytes offset) {
  const auto found = segments_.find(offset);
  TENURE_CHECK(found != segments_.end());
  PoolSegment& leaving = found->second;
  TENURE_CHECK(leaving.closed && !leaving.share.valid() && leaving.exports == 0);
  Segment segment = *std::move(leaving.segment);
  if (leaving.unanswered) bytes_.unanswered -= shape_.segment_size;
  bytes_.segments -= shape_.segment_size;
  RangeAt(offset).Clear(offset);
  segments_.erase(found);
  return segment;
}

void Pool::SetAside(std::span<const Bytes> offsets) {
  for (const Bytes offset : offsets) {
    RangeAt(offset).Close(offset);
    RangeAt(offset).Clear(offset);
  }
}

void Pool::TakeBack(std::span<const Bytes> offsets) {
  for (const Bytes offset : offsets) {
    RangeAt(offset).Expect(offset);
    RangeAt(offset).Fill(offset);
  }
}

Bytes Pool::LargestFree(uint64_t most) const {
  Bytes largest;
  for (const PoolRange& range : ranges_) largest = std::max(largest, range.LargestFree(most));
  return largest;
}

std::vector<Buffer> Pool::AroundLargestHole(BufferKind kind) const {
  const Range hole = ranges_[static_cast<size_t>(kind)].LargestHole();
  std::vector<Buffer> around;
  if (hole.empty()) return around;
  for (const auto& [id, held] : buffers_) {
    const Range place = held.buffer.place;
    if (place.end() == hole.begin() || place.begin() == hole.end()) around.push_back(held.buffer);
  }
  std::sort(around.begin(), around.end(),
            [](const Buffer& a, const Buffer& b) { return a.place.begin() < b.place.begin(); });
  return around;
}

void Pool::Validate() const {
  PoolBytes sums;
  for (const PoolRange& range : ranges_) {
    range.Validate();
    sums.blocks += range.used();
  }
  std::map<Bytes, Bytes> places;  // begin, end
  for (const auto& [id, held] : buffers_) {
    TENURE_CHECK(places.emplace(held.buffer.place.begin(), held.buffer.place.end()).second);
    TENURE_CHECK(held.buffer.requested <= held.buffer.place.size());
    sums.requested += held.buffer.requested;
    if (held.may_be_idle) sums.maybe_idle += held.block.size;
  }
  for (const auto& [offset, segment] : segments_) {
    (segment.segment.has_value() ? sums.segments : sums.coming) += shape_.segment_size;
    if (segment.unanswered) sums.unanswered += shape_.segment_size;
    TENURE_CHECK(segment.closed || (!segment.answer_by.has_value() && !segment.unanswered));
    TENURE_CHECK(!segment.closed || RangeAt(offset).BlocksIn(offset) == 0);
    TENURE_CHECK(segment.segment.has_value() || !segment.share.valid());
    if (!segment.granted.has_value()) continue;
    TENURE_CHECK(places.emplace(offset, offset + shape_.segment_size).second);
    sums.requested += shape_.segment_size;
    sums.granted += shape_.segment_size;
  }
  Bytes end;
  for (const auto& [place_begin, place_end] : places) {
    TENURE_CHECK(place_begin >= end);
    end = place_end;
    // All of it is in Segments that are there.
    for (Bytes at = AlignDown(place_begin, shape_.segment_size); at < place_end;
         at += shape_.segment_size) {
      const auto segment = segments_.find(at);
      TENURE_CHECK(segment != segments_.end() && segment->second.segment.has_value() &&
                   !segment->second.closed);
    }
  }
  TENURE_CHECK(sums.segments == bytes_.segments && sums.coming == bytes_.coming &&
               sums.blocks == bytes_.blocks && sums.requested == bytes_.requested &&
               sums.granted == bytes_.granted && sums.maybe_idle == bytes_.maybe_idle &&
               sums.unanswered == bytes_.unanswered);
}

}  // namespace tenure
