// Clients that die or hang up while they hold leases.

#include <chrono>
#include <gtest/gtest.h>
#include <signal.h>
#include <string>

#include "core/base/clock.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/lease_holder.h"
#include "tests/e2e/models.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"

namespace tenure {
namespace {

// Guards against a hang: ten times what is promised.
constexpr auto kSoon = std::chrono::seconds(10);

class DeathTest : public ::testing::Test {
 protected:
  Scrape Metrics() const { return Scrape::Of(daemon_.metrics_address()); }
  // True if only so many leases are left within kSoon.
  bool LeasesSoonAre(uint64_t count) const {
    const SteadyClock clock;
    const Instant start = clock.Now();
    return Eventually([&] { return Metrics().Value("tenure_leases") == count; }) &&
           clock.Now() - start < kSoon;
  }

  const Tenured daemon_;
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(16)}, 1);
  const Client client_ = daemon_.Connect();
};

// Field case 16.
TEST_F(DeathTest, AKilledClientLosesItsLeaseAndNobodyElseNotices) {
  const WeightLease own = LoadAndLease(client_, "a", a_);
  LeaseHolder holder(daemon_, "a", a_.path);
  EXPECT_EQ(Metrics().Value("tenure_leases"), 2u);
  holder.Kill();
  EXPECT_TRUE(LeasesSoonAre(1));
  EXPECT_TRUE(Eventually([&] { return Metrics().Value("tenure_clients_lost_total") == 1; }));
  EXPECT_EQ(client_.Sessions()->size(), 1u);
  EXPECT_EQ(Metrics().Memory("quarantined"), 0u);
  EXPECT_TRUE(own.valid());
  EXPECT_EQ(Difference(own, a_), "");
}

// Field case 16.
TEST_F(DeathTest, AForkedChildThatHoldsTheConnectionDoesNotKeepTheLease) {
  const WeightLease own = LoadAndLease(client_, "a", a_);
  LeaseHolder holder(daemon_, "a", a_.path, "fork");
  ASSERT_GT(holder.child(), 0);
  holder.Kill();
  EXPECT_TRUE(LeasesSoonAre(1));
  EXPECT_EQ(kill(holder.child(), 0), 0);
  EXPECT_EQ(Metrics().Memory("quarantined"), 0u);
  EXPECT_TRUE(own.valid());
  EXPECT_EQ(Difference(own, a_), "");
}

// Field case 16.
TEST_F(DeathTest, ALivingProcessThatHungUpIsInQuarantineUntilItIsKilled) {
  const ModelFile b = WriteModel(daemon_, "b", {.target = MiB(16)}, 2);
  LeaseHolder holder(daemon_, "a", a_.path, "hang-up");
  EXPECT_TRUE(LeasesSoonAre(0));
  EXPECT_TRUE(Eventually([&] { return Metrics().Memory("quarantined") > 0; }));
  ASSERT_TRUE(client_.Unload("a").ok());

  // What it still can read goes to nobody.
  const auto loaded = client_.Load({.name = "b", .path = b.path});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->reuse, client::Reuse::kFresh);
  EXPECT_GT(Metrics().Memory("quarantined"), 0u);

  holder.Kill();
  EXPECT_TRUE(Eventually([&] { return Metrics().Memory("quarantined") == 0; }));
  ASSERT_TRUE(client_.Unload("b").ok());
  const auto again = client_.Load({.name = "a", .path = a_.path, .acquire = true});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->reuse, client::Reuse::kRevived);
  EXPECT_EQ(Difference(*again->lease, a_), "");
}

}  // namespace
}  // namespace tenure
