#include "core/base/clock.h"

#include <gtest/gtest.h>

#include "tests/support/manual_clock.h"

namespace tenure {
namespace {

using std::chrono::seconds;

constexpr Instant kStart = Instant(seconds(1000));

TEST(AfterTest, AddsTheSpan) { EXPECT_EQ(After(kStart, seconds(5)), kStart + seconds(5)); }

// Field case 12: no TTL may wrap round into the past.
TEST(AfterTest, IsNeverWhereTheSumIsOutOfReach) {
  EXPECT_EQ(After(kStart, kForever), kNever);
  EXPECT_EQ(After(kNever, seconds(1)), kNever);
  EXPECT_EQ(After(kNever, -seconds(1)), kNever);
  EXPECT_EQ(After(kStart, kForever - Duration(1)), kNever);
  EXPECT_EQ(After(kNever - Duration(1), Duration(2)), kNever);
}

TEST(AfterTest, ReachesTheLastInstantBeforeNever) {
  EXPECT_EQ(After(kNever - Duration(2), Duration(1)), kNever - Duration(1));
}

TEST(SteadyClockTest, NeverGoesBack) {
  const SteadyClock clock;
  Instant last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const Instant now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(ManualClockTest, MovesOnlyWhenAdvanced) {
  ManualClock clock;
  const Instant start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(seconds(3));
  EXPECT_EQ(clock.Now(), start + seconds(3));
}

}  // namespace
}  // namespace tenure
