#include "core/store/long_hold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/store/store_fixture.h"

// What counts as held for suspiciously long.

namespace tenure {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LongHoldTest : public StoreTest {
 protected:
  // Time passes, and leases are renewed as a client's heartbeats do.
  void Pass(Duration span) {
    for (Duration passed{}; passed < span; passed += seconds(10)) {
      clock_.Advance(seconds(10));
      store_->RenewSession(session_);
      store_->Tick();
    }
  }
  void HoldLeaseFor(Duration span) {
    const StatusOr<GrantedLease> lease = store_->Acquire(session_, "a", "", {}, "");
    ASSERT_TRUE(lease.ok()) << lease.status();
    clock_.Advance(span);
    ASSERT_TRUE(store_->Release(session_, lease->id).ok());
  }
};

TEST_F(LongHoldTest, ALeaseIsOneOnceItOutlivesTenTimesTheUsual) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  ASSERT_TRUE(LoadLeased("a", "a").ok());
  for (int i = 0; i < 100; ++i) HoldLeaseFor(seconds(10));
  store_->RenewSession(session_);
  Pass(seconds(60));
  const std::vector<LongHold> holds = store_->devices()[0]->LongHolds();
  ASSERT_THAT(holds, SizeIs(1));
  EXPECT_EQ(holds[0].subject, "a@1");
  EXPECT_EQ(holds[0].identity.program, "tester");
  EXPECT_EQ(holds[0].bytes, KiB(20));
  EXPECT_EQ(holds[0].usual, milliseconds(16'384));
  EXPECT_GE(holds[0].held, seconds(1060));
}

TEST_F(LongHoldTest, WithoutHistoryItTakesAnHour) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  ASSERT_TRUE(LoadLeased("a", "a").ok());
  Pass(minutes(59));
  EXPECT_THAT(store_->devices()[0]->LongHolds(), IsEmpty());
  Pass(minutes(2));
  const std::vector<LongHold> holds = store_->devices()[0]->LongHolds();
  ASSERT_THAT(holds, SizeIs(1));
  EXPECT_EQ(holds[0].usual, Duration::zero());
}

TEST_F(LongHoldTest, ShortHoldsMakeNothingALeakWithinAMinute) {
  HoldDurations released;
  for (int i = 0; i < 100; ++i) released.Record(milliseconds(1));
  EXPECT_EQ(UsualHold(released).usual, milliseconds(1));
  EXPECT_EQ(UsualHold(released).too_long, minutes(1));
  HoldDurations few;
  for (int i = 0; i < 19; ++i) few.Record(milliseconds(1));
  EXPECT_EQ(UsualHold(few).too_long, hours(1));
}

TEST(DurationHistogramTest, TellsWhichBoundAPartLiesUnder) {
  HoldDurations durations;
  for (int i = 0; i < 99; ++i) durations.Record(milliseconds(3));
  durations.Record(hours(1000));
  EXPECT_EQ(durations.count(), 100U);
  EXPECT_EQ(durations.Quantile(0.99), 0.004);
  EXPECT_EQ(durations.Quantile(1), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace tenure
