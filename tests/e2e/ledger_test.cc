// The ledger in /metrics balances at every step of a model's life, and while it goes from one to
// the next.

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <thread>

#include "core/base/clock.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/lease_holder.h"
#include "tests/e2e/models.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kCapacity = uint64_t{256} << 20;

class LedgerTest : public ::testing::Test {
 protected:
  // What the arena is used for now, after a look at its sums.
  Scrape Balanced() const {
    Scrape scrape = Scrape::Of(daemon_.metrics_address());
    EXPECT_EQ(scrape.Imbalance(), "");
    return scrape;
  }
  bool Eventually(const std::string& state, uint64_t bytes) const {
    return tenure::Eventually([&] { return Balanced().Memory(state) == bytes; });
  }

  const Tenured daemon_{TenuredSettings{.lease_ttl = "1s", .heartbeat_interval = "200ms"}};
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(16)}, 1);
};

// Field case 34.
TEST_F(LedgerTest, EveryStepOfAModelsLifeMovesItsBytesFromOneStateToTheNext) {
  const Client client = daemon_.Connect();
  EXPECT_EQ(Balanced().Memory("unbacked"), kCapacity);

  const auto loaded = client.Load({.name = "a", .path = a_.path});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const uint64_t bytes = loaded->model.region_bytes;
  const uint64_t padding = Balanced().Memory("padding");
  const uint64_t reserved = Balanced().Value("tenure_arena_reserved_bytes");
  EXPECT_EQ(Balanced().Memory("idle") + padding, reserved);
  EXPECT_GE(reserved, bytes);

  auto first = client.Acquire({.name = "a"});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(Balanced().Memory("leased") + padding, reserved);
  EXPECT_EQ(Balanced().Memory("idle"), 0u);
  auto second = client.Acquire({.name = "a"});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Balanced().Memory("leased") + padding, reserved);
  EXPECT_EQ(Balanced().Value("tenure_leases"), 2u);

  ASSERT_TRUE(first->Release().ok());
  ASSERT_TRUE(client.Unload("a").ok());
  EXPECT_EQ(Balanced().Memory("leased") + padding, reserved);
  ASSERT_TRUE(second->Release().ok());
  EXPECT_EQ(Balanced().Memory("retained"), reserved);
  EXPECT_EQ(Balanced().Memory("padding"), 0u);
  EXPECT_EQ(Balanced().Value("tenure_arena_allocated_bytes"), 0u);

  // Comes back, and is given up at once when it goes again.
  const auto again = client.Load(
      {.name = "a", .path = a_.path, .retention = std::chrono::nanoseconds(0), .acquire = true});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Balanced().Memory("leased") + padding, reserved);
}

// Field case 34.
TEST_F(LedgerTest, ALeaseThatExpiresPutsItsMemoryIntoQuarantineUntilTheHolderIsDead) {
  LeaseHolder holder(daemon_, "a", a_.path, "hold", 300);
  const uint64_t leased = Balanced().Memory("leased");
  EXPECT_GT(leased, 0u);
  holder.Pause();
  EXPECT_TRUE(Eventually("quarantined", leased));
  EXPECT_EQ(Balanced().Value("tenure_leases"), 0u);
  EXPECT_EQ(Balanced().Value("tenure_leases_expired_total"), 1u);
  holder.Kill();
  EXPECT_TRUE(Eventually("idle", leased));
}

// Field cases 12 and 34.
TEST_F(LedgerTest, RetainedMemoryIsFreeOnceItsTimeIsOver) {
  const Client client = daemon_.Connect();
  ASSERT_TRUE(client.Load({.name = "a", .path = a_.path, .retention = milliseconds(500)}).ok());
  const uint64_t reserved = Balanced().Value("tenure_arena_reserved_bytes");
  ASSERT_TRUE(client.Unload("a").ok());
  EXPECT_TRUE(Eventually("cached", reserved));
  EXPECT_EQ(Balanced().Memory("retained"), 0u);
  EXPECT_EQ(client.Get("a").status().code(), absl::StatusCode::kNotFound);
}

// Field case 34.
TEST_F(LedgerTest, AScrapeAtAnyMomentBalances) {
  const Client client = daemon_.Connect();
  const ModelFile b = WriteModel(daemon_, "b", {.target = MiB(16)}, 2);
  std::atomic<bool> done = false;
  std::thread loads([&] {
    for (int i = 0; i < 30; ++i) {
      for (const ModelFile& file : {a_, b}) {
        EXPECT_TRUE(client.Load({.name = "m", .path = file.path, .acquire = true}).ok());
      }
      EXPECT_TRUE(client.Unload("m").ok());
    }
    done = true;
  });
  while (!done) Balanced();
  loads.join();
  Balanced();
}

// Field case 35.
TEST_F(LedgerTest, TheOnlyClientsDeathShowsInTheMetricsWithoutAnyCall) {
  LeaseHolder holder(daemon_, "a", a_.path);
  EXPECT_EQ(Balanced().Value("tenure_leases"), 1u);
  EXPECT_GT(Balanced().Memory("leased"), 0u);
  const SteadyClock clock;
  const Instant start = clock.Now();
  holder.Kill();
  EXPECT_TRUE(Eventually("leased", 0));
  // Guards against a hang: ten times what is promised.
  EXPECT_LT(clock.Now() - start, std::chrono::seconds(20));
  EXPECT_EQ(Balanced().Value("tenure_leases"), 0u);
}

}  // namespace
}  // namespace tenure
