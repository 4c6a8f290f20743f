// Clients that are killed at random moments, while they load, lease, map, read and release.

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/storm.h"
#include "tests/e2e/tenured.h"
#include "tests/e2e/traces.h"

namespace tenure {
namespace {

#ifdef TENURE_SANITIZED
constexpr uint64_t kKills = 100;
#else
constexpr uint64_t kKills = 1000;
#endif
constexpr uint64_t kBatches = 10;
constexpr size_t kClients = 6;
// Guards against a hang: ten times what is promised.
constexpr auto kSoon = std::chrono::seconds(10);
// What a batch may add: far less than one thing left behind by each of its victims.
constexpr double kSlope = 2;

class KillStormTest : public ::testing::Test {
 protected:
  // How long it takes until the daemon knows the dead client no more.
  Duration TimeToForget(pid_t pid) const {
    const Instant start = clock_.Now();
    while (Knows(pid) && clock_.Now() - start < kSoon) {
    }
    return clock_.Now() - start;
  }
  bool Knows(pid_t pid) const {
    const auto sessions = observer_.Sessions();
    return std::ranges::any_of(*sessions, [&](const auto& each) { return each.pid == pid; });
  }

  // Everybody is dead: takes offline what they loaded, and looks at what is left.
  void ExpectNothingHeld() const {
    const Instant start = clock_.Now();
    EXPECT_TRUE(Eventually([&] {
      const Scrape scrape = Scrape::Of(daemon_.metrics_address());
      return scrape.Memory("leased") + scrape.Memory("quarantined") + scrape.Memory("loading") ==
                 0 &&
             scrape.Value("tenure_leases") == 0 && scrape.Value("tenure_sessions") == 1;
    }));
    EXPECT_LT(clock_.Now() - start, kSoon);
    for (int i = 0; i < kStormModels; ++i) observer_.Unload(StormName(i)).IgnoreError();
    EXPECT_TRUE(Eventually([&] {
      const Scrape scrape = Scrape::Of(daemon_.metrics_address());
      EXPECT_EQ(scrape.Imbalance(), "");
      return scrape.Memory("unbacked") == scrape.Value("tenure_arena_capacity_bytes");
    })) << observer_.List()->size()
        << " models are left";
  }

  static std::string Milliseconds(std::vector<Duration> all, double quantile) {
    std::ranges::sort(all);
    const auto place = static_cast<size_t>(quantile * static_cast<double>(all.size() - 1));
    return std::to_string(std::chrono::duration<double, std::milli>(all[place]).count());
  }

  const uint64_t seed_ = FromEnvironment("TENURE_STORM_SEED", std::random_device()());
  const uint64_t kills_ = FromEnvironment("TENURE_STORM_KILLS", kKills);
  SteadyClock clock_;
  // Room for some of the models, so that they take each other's memory.
  const Tenured daemon_{TenuredSettings{.capacity = "12MiB",
                                        .segment_size = "2MiB",
                                        .retain_ttl = "100ms",
                                        .cache_ttl = "100ms",
                                        .log_level = "error"}};
  const Client observer_ = daemon_.Connect("observer");
};

// Field cases 16 and 18.
TEST_F(KillStormTest, ClientsKilledAtRandomLeaveNothingAndNobodyReadsAWrongByte) {
  std::cout << "seed " << seed_ << std::endl;
  Storm storm(daemon_, kClients, seed_);
  storm.AwaitChecks(20);
  const uint64_t kills_per_batch = std::max<uint64_t>(kills_ / kBatches, kClients + 1);
  std::vector<Traces> after;
  std::vector<Duration> forgotten;
  for (uint64_t batch = 0; batch < kBatches; ++batch) {
    for (uint64_t kill = kClients; kill < kills_per_batch; ++kill) {
      const pid_t victim = storm.KillOne();
      forgotten.push_back(TimeToForget(victim));
      ASSERT_LT(forgotten.back(), kSoon);
      storm.Refill();
    }
    storm.ExpectAllAlive();
    storm.KillAll();
    ExpectNothingHeld();
    ASSERT_FALSE(HasFailure());
    after.push_back(Traces::Of(daemon_));
    storm.Refill();
  }
  EXPECT_EQ(storm.counts().wrong_bytes, 0u);
  // Where starting takes long, most are killed before they have a lease.
  EXPECT_GT(storm.counts().checks, kills_ / 4);
  EXPECT_LE(Slope(after, &Traces::fds), kSlope);
  EXPECT_LE(Slope(after, &Traces::threads), kSlope);
  EXPECT_LE(Slope(after, &Traces::maps), kSlope);
  std::cout << kBatches * kills_per_batch << " kills, " << storm.counts().checks
            << " leases checked, wrong " << storm.counts().wrong_bytes << ", refusals "
            << storm.counts().refusals << "; ms from a client's end until it was "
            << "forgotten: p50 " << Milliseconds(forgotten, 0.5) << ", p99 "
            << Milliseconds(forgotten, 0.99) << ", most " << Milliseconds(forgotten, 1)
            << std::endl;
}

}  // namespace
}  // namespace tenure
