#pragma once

#include <gtest/gtest.h>
#include <vector>

#include "core/runtime/pool.h"
#include "tests/support/small_device.h"

namespace tenure {

inline constexpr Instant kStart = Instant(std::chrono::hours(1));

// A Pool whose Segments come at once.
class PoolOf {
 public:
  explicit PoolOf(const Pool::Shape& shape)
      : segment_size_(shape.segment_size), pool_(PoolId(1), SessionId(1), shape) {}
  ~PoolOf() { pool_.Validate(); }

  Pool& operator*() { return pool_; }
  Pool* operator->() { return &pool_; }

  Segment MakeSegment(Bytes size) { return *device_.CreateSegment(SegmentUse::kRuntime, size); }
  void Bring(const std::vector<Bytes>& offsets) {
    for (const Bytes offset : offsets) {
      pool_.Expect(offset);
      pool_.Validate();
      pool_.Fill(offset, MakeSegment(segment_size_), now);
      pool_.Validate();
    }
  }
  std::vector<Buffer> Add(const std::vector<BufferSpec>& specs, const Pool::Placement& placement) {
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < placement.blocks.size(); ++i) {
      buffers.push_back(pool_.AddBuffer(ids_.Next(), specs[i], placement.blocks[i], Instant()));
    }
    pool_.Validate();
    return buffers;
  }
  // Nothing if the range has no place.
  std::vector<Buffer> Acquire(const std::vector<BufferSpec>& specs) {
    Pool::Placement placement = pool_.Place(specs);
    Bring(placement.missing);
    if (!placement.placed()) placement = pool_.Place(specs);
    return Add(specs, placement);
  }
  std::vector<Bytes> AcquireSegments(BufferKind kind, Bytes bytes) {
    Pool::Placement placement = pool_.PlaceSegments(kind, bytes);
    Bring(placement.missing);
    if (!placement.placed()) placement = pool_.PlaceSegments(kind, bytes);
    if (!placement.placed()) return {};
    std::vector<Bytes> offsets = pool_.Grant(kind, placement.blocks[0]);
    pool_.Validate();
    return offsets;
  }
  void Release(const Buffer& buffer) {
    EXPECT_TRUE(pool_.Release(buffer.id, now));
    pool_.Validate();
  }
  void ExpectBytes(Bytes segments, Bytes blocks, Bytes requested) const {
    const PoolBytes& bytes = pool_.bytes();
    EXPECT_EQ(bytes.segments.count(), segments.count());
    EXPECT_EQ(bytes.blocks.count(), blocks.count());
    EXPECT_EQ(bytes.requested.count(), requested.count());
    EXPECT_EQ(bytes.coming, Bytes(0));
    EXPECT_EQ(bytes.free(), segments - blocks - bytes.unanswered);
  }

  Instant now = kStart;

 private:
  const Bytes segment_size_;
  SmallDevice device_{"host:0", GiB(1)};
  IdSequence<BufferId> ids_;
  Pool pool_;
};

}  // namespace tenure
