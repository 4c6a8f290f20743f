#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

#include "core/runtime/pool_table.h"
#include "tests/support/small_device.h"

namespace tenure {

// A PoolTable of two open Sessions, whose Segments come at once.
class PoolTableTest : public ::testing::Test {
 protected:
  static constexpr SessionId kSession = SessionId(1);
  static constexpr SessionId kOther = SessionId(2);
  static constexpr Bytes kSegment = KiB(64);
  static constexpr Bytes kKind = kSegment * 16;
  static constexpr Duration kTtl = std::chrono::seconds(10);

  PoolTableTest() {
    table_.OpenSession(kSession);
    table_.OpenSession(kOther);
  }
  ~PoolTableTest() override { table_.Validate(); }

  Pool& Open(SessionId session = kSession) { return **table_.Open(session, kTtl, now_); }
  Segment MakeSegment() { return *device_.CreateSegment(SegmentUse::kRuntime, kSegment); }
  void Bring(Pool& pool, const std::vector<Bytes>& offsets) {
    for (const Bytes offset : offsets) {
      pool.Expect(offset);
      table_.Fill({pool.id(), offset}, MakeSegment(), now_);
    }
  }
  std::vector<Buffer> Acquire(const std::vector<BufferSpec>& specs, SessionId session = kSession) {
    Pool& pool = Open(session);
    Pool::Placement placement = pool.Place(specs);
    Bring(pool, placement.missing);
    if (!placement.placed()) placement = pool.Place(specs);
    std::vector<Buffer> buffers = *table_.AddBuffers(pool, specs, placement.blocks, now_);
    table_.Validate();
    return buffers;
  }
  Buffer AcquireOne(Bytes size, SessionId session = kSession) {
    return Acquire({{.size = size}}, session).at(0);
  }
  std::vector<Bytes> Grow(uint64_t segments, SessionId session = kSession) {
    Pool& pool = Open(session);
    Pool::Placement placement = pool.PlaceSegments(BufferKind::kActivation, kSegment * segments);
    Bring(pool, placement.missing);
    if (!placement.placed()) {
      placement = pool.PlaceSegments(BufferKind::kActivation, kSegment * segments);
    }
    return pool.Grant(BufferKind::kActivation, placement.blocks.at(0));
  }
  PoolId Live(SessionId session = kSession) { return Open(session).id(); }
  StatusOr<std::vector<PoolTable::Shared>> Begin(const std::vector<Bytes>& offsets,
                                                 SessionId session = kSession) {
    return table_.BeginExport(session, Live(session), offsets);
  }
  // Its Session has the Segment mapped after that.
  ShareSerial Map(Bytes offset, SessionId session = kSession) {
    const PoolTable::Shared shared = Begin({offset}, session)->at(0);
    table_.EndExport(shared);
    EXPECT_TRUE(table_.MaySend(shared).ok());
    table_.EndSending(shared, true);
    table_.Validate();
    return shared.share;
  }
  size_t Returned() {
    table_.Validate();
    return table_.TakeReturned().size();
  }
  Status Release(const Buffer& buffer, SessionId session = kSession) {
    const Status status = table_.Release(session, buffer.id, now_);
    table_.Validate();
    return status;
  }
  // Uses the Segment at the begin of the Pool no more.
  PoolSegmentId UnusedMapped() {
    const Buffer buffer = AcquireOne(kSegment);
    EXPECT_TRUE(Release(buffer).ok());
    Map(buffer.place.begin());
    return {Live(), buffer.place.begin()};
  }

  Instant now_ = Instant(std::chrono::hours(1));
  SmallDevice device_{"host:0", GiB(1)};
  IdSequence<PoolId> pools_;
  IdSequence<BufferId> buffers_;
  IdSequence<ShareSerial> shares_;
  PoolTable table_{{.segment_size = kSegment, .kind_bytes = kKind},
                   {.pools = pools_, .buffers = buffers_, .shares = shares_}};
};

}  // namespace tenure
