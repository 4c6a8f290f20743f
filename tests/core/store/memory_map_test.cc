#include "core/store/memory_map.h"

#include <iostream>
#include <sys/resource.h>

#include "core/base/clock.h"
#include "tests/core/store/store_fixture.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class MemoryMapTest : public StoreTest {
 protected:
  WeightsMap Map() const { return store_->devices()[0]->TakeMap(); }
};

TEST_F(MemoryMapTest, TellsWhatIsLeftOfLeasesAndOfRetention) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  WriteModel("b", {KiB(24)}, 1);
  const LeaseId lease = LoadLeased("a", "a")->lease->id;
  ASSERT_TRUE(store_->Acquire(session_, "a", "", seconds(90), "").ok());
  ASSERT_TRUE(Load("b", "b").ok());
  ASSERT_TRUE(Unload("b").ok());
  Pass(seconds(10));

  WeightsMap map = Map();
  ASSERT_EQ(map.regions.size(), 2u);
  const RegionMap& a = map.regions[0];
  EXPECT_EQ(a.model, "a");
  EXPECT_EQ(a.holding, Holding::kLeased);
  ASSERT_EQ(a.holds.size(), 1u);
  EXPECT_EQ(a.holds[0].leases, 2u);
  // Of the lease that lasts longest.
  EXPECT_EQ(a.holds[0].expires_in, seconds(80));
  EXPECT_EQ(a.expires_in, std::nullopt);
  ASSERT_EQ(a.segments.size(), 2u);
  EXPECT_EQ(a.segments[0].size, kSegment);
  EXPECT_EQ(a.segments[1].size, KiB(4));
  EXPECT_EQ(map.regions[1].holding, Holding::kRetained);
  EXPECT_EQ(map.regions[1].expires_in, seconds(50));
  EXPECT_EQ(map.sessions.at(session_).program, "tester");

  // Who still maps it without a lease is told as well.
  ASSERT_TRUE(Fetch(session_, lease).ok());
  Pass(seconds(100));
  map = Map();
  EXPECT_EQ(map.regions[0].holding, Holding::kQuarantined);
  EXPECT_EQ(map.regions[0].holds[0].leases, 0u);
  EXPECT_TRUE(map.regions[0].holds[0].quarantined);
  EXPECT_TRUE(map.regions[0].holds[0].shared);
  EXPECT_EQ(map.regions[0].holds[0].expires_in, std::nullopt);
}

TEST_F(MemoryMapTest, TellsWhatIsCachedBySize) {
  Start();
  WriteModel("a", {KiB(36)}, 1);
  ASSERT_TRUE(Load("a", "a").ok());
  ASSERT_TRUE(Unload("a").ok());
  Pass(seconds(61));
  const WeightsMap map = Map();
  EXPECT_TRUE(map.regions.empty());
  ASSERT_EQ(map.cached.size(), 2u);
  EXPECT_EQ(map.cached[0].size, KiB(4));
  EXPECT_EQ(map.cached[0].count, 1u);
  EXPECT_EQ(map.cached[1].size, kSegment);
  EXPECT_EQ(map.cached[1].count, 2u);
  EXPECT_EQ(map.ledger.cached, KiB(36));
}

TEST_F(MemoryMapTest, ALostDeviceShowsItsRegionsAsLost) {
  Start();
  WriteModel("a", {KiB(4)}, 1);
  ASSERT_TRUE(Load("a", "a").ok());
  hardware_[0]->Lose();
  store_->Tick();
  const WeightsMap map = Map();
  EXPECT_TRUE(HasReason(map.lost, Reason::kDeviceLost));
  ASSERT_EQ(map.regions.size(), 1u);
  EXPECT_EQ(map.regions[0].holding, Holding::kLost);
}

// Under the mutex, where everybody waits: 1.5 ms of 5,000 when this was written.
TEST_F(MemoryMapTest, FiveThousandRegionsAreCopiedInLittleTime) {
#ifdef TENURE_SANITIZED
  constexpr int kRegions = 500;
#else
  constexpr int kRegions = 5000;
#endif
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < 2 * kRegions) GTEST_SKIP() << "needs " << 2 * kRegions << " open files";
  DeviceStoreOptions options = DefaultOptions();
  options.weights_capacity = KiB(4) * kRegions;
  Start(options);
  WriteModel("a", {KiB(4)}, 1);
  for (int i = 0; i < kRegions; ++i) {
    ASSERT_TRUE(LoadLeased("team/model-with-a-name-" + std::to_string(i), "a").ok()) << i;
  }
  const SteadyClock clock;
  const Instant start = clock.Now();
  const WeightsMap map = Map();
  const Duration took = clock.Now() - start;
  RecordProperty("copy_us", std::to_string(took.count() / 1000));
  std::cout << "copied in " << took.count() / 1000 << " us\n";
  EXPECT_EQ(map.regions.size(), size_t{kRegions});
  EXPECT_LT(took, milliseconds(100));
}

}  // namespace
}  // namespace tenure
