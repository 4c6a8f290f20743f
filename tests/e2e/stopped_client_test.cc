// A client that stands still for longer than its lease lives, and wakes up again.

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/lease_holder.h"
#include "tests/e2e/models.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"
#include "tests/e2e/wire_client.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr int kTtlMs = 300;

class StoppedClientTest : public ::testing::Test {
 protected:
  StoppedClientTest() : holder_(daemon_, "a", a_.path, "verify", kTtlMs) {}

  Scrape Metrics() const { return Scrape::Of(daemon_.metrics_address()); }

  // Stops the holder until its lease has been over for twice its time to live.
  void PauseForThreeTtls() {
    const SteadyClock clock;
    holder_.Pause();
    const Instant start = clock.Now();
    ASSERT_TRUE(Eventually([&] { return Metrics().Value("tenure_leases_expired_total") == 1; }));
    ASSERT_TRUE(Eventually([&] { return clock.Now() - start > 3 * milliseconds(kTtlMs); }));
    EXPECT_EQ(Metrics().Memory("leased"), 0u);
    EXPECT_GT(Metrics().Memory("quarantined"), 0u);
  }
  // That its lease is lost, by the daemon's word or by its own clock, whichever it sees first, and
  // then `words`.
  void ExpectSaysItIsLostAnd(const std::string& words) const {
    EXPECT_TRUE(Eventually([&] {
      return holder_.Out().ends_with("lost LEASE_EXPIRED\n" + words) ||
             holder_.Out().ends_with("lost HEARTBEAT_MISSED\n" + words);
    })) << holder_.Out();
  }

  const Tenured daemon_{TenuredSettings{.capacity = "32MiB", .segment_size = "2MiB"}};
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(8)}, 1);
  const Client client_ = daemon_.Connect();
  LeaseHolder holder_;
};

// Field case 49.
TEST_F(StoppedClientTest, NobodyGetsTheMemoryThatItMayStillRead) {
  const uint64_t region = client_.Get("a")->region_id;
  PauseForThreeTtls();
  ASSERT_TRUE(client_.Unload("a").ok());

  // Others want all there is, in models of the very same architecture.
  std::vector<std::pair<ModelFile, WeightLease>> others;
  absl::Status refused;
  for (uint64_t i = 2; refused.ok(); ++i) {
    const std::string name = "other" + std::to_string(i);
    const ModelFile file = WriteModel(daemon_, name, {.target = MiB(8)}, i);
    auto loaded = client_.Load({.name = name, .path = file.path, .acquire = true});
    refused = loaded.status();
    if (!loaded.ok()) break;
    EXPECT_NE(loaded->model.region_id, region);
    EXPECT_EQ(loaded->reuse, client::Reuse::kFresh);
    others.emplace_back(file, *std::move(loaded->lease));
  }
  EXPECT_GE(others.size(), 2u);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("(quarantined) on a@1"));

  holder_.Resume();
  ExpectSaysItIsLostAnd("release LEASE_EXPIRED\nagain MODEL_NOT_FOUND\n");
  for (const auto& [file, lease] : others) {
    EXPECT_TRUE(lease.valid());
    EXPECT_EQ(Difference(lease, file), "");
  }
  // It lives and answers: its memory can go to the next one.
  const ModelFile last = WriteModel(daemon_, "last", {.target = MiB(8)}, 99);
  const auto loaded = client_.Load({.name = "last", .path = last.path, .acquire = true});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(Difference(*loaded->lease, last), "");
  EXPECT_EQ(Metrics().Memory("quarantined"), 0u);
  EXPECT_THAT(holder_.Out(), ::testing::Not(HasSubstr("wrong")));
}

// Field case 49.
TEST_F(StoppedClientTest, LeasesAnewWhatNobodyNeeded) {
  PauseForThreeTtls();
  holder_.Resume();
  ExpectSaysItIsLostAnd("release LEASE_EXPIRED\nagain ok\n");
  EXPECT_EQ(Metrics().Value("tenure_leases_expired_total"), 1u);
  EXPECT_EQ(Metrics().Memory("quarantined"), 0u);
}

// Field case 49.
TEST_F(StoppedClientTest, ALateRenewalIsToldThatTheLeaseHasExpired) {
  WireClient silent(daemon_.directory());
  const uint64_t lease = silent.Acquire("a", "", milliseconds(kTtlMs));
  std::vector<UniqueFd> fds;
  silent.Fetch(lease, fds);
  EXPECT_EQ(silent.Renew(lease), "");
  ASSERT_TRUE(Eventually([&] { return Metrics().Value("tenure_leases_expired_total") == 1; }));
  EXPECT_EQ(silent.Renew(lease), "LEASE_EXPIRED");
  EXPECT_EQ(silent.Release(lease), "LEASE_EXPIRED");
  EXPECT_EQ(silent.Renew(silent.Acquire("a")), "");
}

}  // namespace
}  // namespace tenure
