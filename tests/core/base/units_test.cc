#include "core/base/units.h"

#include <gtest/gtest.h>
#include <limits>

namespace tenure {
namespace {

constexpr Bytes kMost = Bytes(std::numeric_limits<uint64_t>::max());

TEST(BytesTest, AddsSubtractsAndMultipliesAsNumbersDo) {
  EXPECT_EQ(KiB(1) + Bytes(24), Bytes(1048));
  EXPECT_EQ(MiB(1) - KiB(1), Bytes(1047552));
  EXPECT_EQ(MiB(64) * 16, GiB(1));
  EXPECT_EQ(GiB(1) / MiB(64), 16u);
  EXPECT_EQ(Bytes(1000) % Bytes(256), Bytes(232));
}

TEST(BytesTest, ReachesBothEndsOfItsRange) {
  EXPECT_EQ(kMost - kMost, Bytes(0));
  EXPECT_EQ(Bytes(0) + kMost, kMost);
  EXPECT_EQ(kMost * 0, Bytes(0));
}

TEST(BytesTest, SaturatingSubStopsAtZero) {
  EXPECT_EQ(SaturatingSub(Bytes(5), Bytes(3)), Bytes(2));
  EXPECT_EQ(SaturatingSub(Bytes(3), Bytes(3)), Bytes(0));
  EXPECT_EQ(SaturatingSub(Bytes(3), kMost), Bytes(0));
}

TEST(BytesDeathTest, ArithmeticThatLeavesTheRangeEndsTheProcess) {
  EXPECT_DEATH(static_cast<void>(kMost + Bytes(1)), "CHECK failed");
  EXPECT_DEATH(static_cast<void>(Bytes(1) - Bytes(2)), "CHECK failed");
  EXPECT_DEATH(static_cast<void>(kMost * 2), "CHECK failed");
}

TEST(AlignTest, RoundsUpAndDownToTheNearestMultiple) {
  struct Row {
    uint64_t value, alignment, up, down;
  };
  for (const Row& row : {Row{0, 256, 0, 0}, Row{1, 256, 256, 0}, Row{256, 256, 256, 256},
                         Row{257, 256, 512, 256}, Row{7, 1, 7, 7}}) {
    EXPECT_EQ(AlignUp(Bytes(row.value), Bytes(row.alignment)), Bytes(row.up)) << row.value;
    EXPECT_EQ(AlignDown(Bytes(row.value), Bytes(row.alignment)), Bytes(row.down)) << row.value;
  }
  EXPECT_EQ(AlignDown(kMost, GiB(1)), kMost - GiB(1) + Bytes(1));
}

TEST(AlignDeathTest, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  EXPECT_DEATH(AlignUp(Bytes(1), Bytes(0)), "CHECK failed");
  EXPECT_DEATH(AlignUp(Bytes(1), Bytes(48)), "CHECK failed");
  EXPECT_DEATH(AlignDown(Bytes(1), Bytes(3)), "CHECK failed");
}

TEST(AlignDeathTest, RefusesAResultBeyondTheRange) {
  EXPECT_DEATH(AlignUp(kMost, Bytes(256)), "CHECK failed");
}

TEST(RangeTest, IsHalfOpen) {
  const Range range(Bytes(10), Bytes(30));
  EXPECT_EQ(range.size(), Bytes(20));
  EXPECT_FALSE(range.empty());
  EXPECT_TRUE(Range(Bytes(10), Bytes(10)).empty());
  EXPECT_TRUE(Range().empty());
}

TEST(RangeDeathTest, RefusesAnEndBeforeItsBegin) {
  EXPECT_DEATH(Range(Bytes(2), Bytes(1)), "CHECK failed");
}

TEST(FormatBytesTest, ChoosesTheLargestUnitThatFits) {
  EXPECT_EQ(FormatBytes(Bytes(0)), "0 B");
  EXPECT_EQ(FormatBytes(Bytes(300)), "300 B");
  EXPECT_EQ(FormatBytes(KiB(1)), "1 KiB");
  EXPECT_EQ(FormatBytes(MiB(64)), "64 MiB");
  EXPECT_EQ(FormatBytes(MiB(1536)), "1.50 GiB");
  EXPECT_EQ(FormatBytes(GiB(2048)), "2 TiB");
  EXPECT_EQ(FormatBytes(kMost), "16777216.00 TiB");
}

}  // namespace
}  // namespace tenure
