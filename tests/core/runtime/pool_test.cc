#include "core/runtime/pool.h"

#include <gtest/gtest.h>

#include "tests/support/small_device.h"

namespace tenure {
namespace {

constexpr Bytes kSegment = MiB(8);
constexpr Instant kStart = Instant(std::chrono::hours(1));

class PoolTest : public ::testing::Test {
 protected:
  // Brings the Segments that are missing until all is placed.
  std::vector<Buffer> Acquire(const std::vector<BufferSpec>& specs) {
    Pool::Placement placement = pool_.Place(specs);
    for (const Bytes offset : placement.missing) {
      pool_.Expect(offset);
      pool_.Fill(offset, *device_.CreateSegment(SegmentUse::kRuntime, kSegment), kStart);
    }
    if (!placement.placed()) placement = pool_.Place(specs);
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < placement.blocks.size(); ++i) {
      buffers.push_back(pool_.AddBuffer(ids_.Next(), specs[i], placement.blocks[i]));
    }
    pool_.Validate();
    return buffers;
  }

  SmallDevice device_{"host:0", GiB(1)};
  IdSequence<BufferId> ids_;
  Pool pool_{PoolId(1), SessionId(1), {.segment_size = kSegment, .kind_bytes = MiB(256)}};
};

TEST_F(PoolTest, ABufferBringsTheSegmentsThatItNeedsAndNoMore) {
  ASSERT_EQ(Acquire({{.size = MiB(20)}}).size(), 1U);
  EXPECT_EQ(pool_.segments().size(), 3U);
  ASSERT_EQ(Acquire({{.size = MiB(4)}}).size(), 1U);
  EXPECT_EQ(pool_.segments().size(), 3U);
  EXPECT_EQ(pool_.LargestFree(0), Bytes(0));
  EXPECT_EQ(pool_.LargestFree(2), MiB(16));
}

TEST_F(PoolTest, GrowthContinuesWhatIsFreeAtTheEnd) {
  Acquire({{.size = MiB(2)}});
  const std::vector<Buffer> large = Acquire({{.size = MiB(14)}});
  ASSERT_EQ(large.size(), 1U);
  EXPECT_EQ(large[0].place, Range(MiB(2), MiB(16)));
  EXPECT_EQ(pool_.segments().size(), 2U);
}

}  // namespace
}  // namespace tenure
