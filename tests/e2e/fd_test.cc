// File descriptors: what clients keep of them, and a daemon that runs out of them.

#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"
#include "tests/e2e/rogue_client.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"
#include "tests/e2e/traces.h"
#include "tests/e2e/wire_client.h"

namespace tenure {
namespace {

#ifdef TENURE_SANITIZED
constexpr int kRounds = 200;
#else
constexpr int kRounds = 2000;
#endif
constexpr rlim_t kFewFds = 64;
constexpr int kMoreThanFit = 80;
// Guards against a hang: ten times what is promised.
constexpr auto kSoon = std::chrono::seconds(10);

// Field case 17.
TEST(FdTest, LeasingAndReleasingForLongTakesNoFds) {
  const Tenured daemon;
  const ModelFile a = WriteModel(daemon, "a", {.target = MiB(4)}, 1);
  const Client client = daemon.Connect();
  { const WeightLease warm_up = LoadAndLease(client, "a", a); }
  WireClient wire(daemon.directory());
  const size_t before = Traces::Of(daemon).fds;
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(client.Acquire({.name = "a"})->Release().ok());
    // And one who has the memory sent anew each time.
    if (i % 10 != 0) continue;
    std::vector<UniqueFd> fds;
    const uint64_t lease = wire.Acquire("a");
    const uint64_t share = wire.Fetch(lease, fds);
    ASSERT_EQ(wire.Release(lease), "");
    wire.handle().SayUnmapped({share});
  }
  // The wire client makes a connection for every call; they close a moment later.
  EXPECT_TRUE(Eventually([&] { return Traces::Of(daemon).fds <= before; }));
}

// Field case 17. Whoever says "unmapped" and keeps fds all the same goes on reading its own memory:
// the daemon gives that up and hands it to nobody.
TEST(FdTest, FdsKeptBeyondReclaimShowNobodyElsesBytes) {
  const Tenured daemon(
      TenuredSettings{.capacity = "32MiB", .segment_size = "2MiB", .cache_ttl = "0s"});
  const ModelFile a = WriteModel(daemon, "a", {.target = MiB(8)}, 1);
  const Client client = daemon.Connect();
  ASSERT_TRUE(
      client.Load({.name = "a", .path = a.path, .retention = std::chrono::nanoseconds(0)}).ok());
  WireClient hoarder(daemon.directory());
  std::vector<UniqueFd> fds;
  const uint64_t lease = hoarder.Acquire("a");
  const uint64_t share = hoarder.Fetch(lease, fds);
  ASSERT_FALSE(fds.empty());
  void* const base = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fds.front().get(), 0);
  ASSERT_NE(base, MAP_FAILED);
  const std::string first(static_cast<const char*>(base), 4096);
  ASSERT_EQ(hoarder.Release(lease), "");
  hoarder.handle().SayUnmapped({share});
  ASSERT_TRUE(hoarder.handle().IsServed());
  ASSERT_TRUE(client.Unload("a").ok());
  ASSERT_TRUE(Eventually([&] {
    return Scrape::Of(daemon.metrics_address()).Value("tenure_arena_reserved_bytes") == 0;
  }));

  const ModelFile b = WriteModel(daemon, "b", {.target = MiB(8)}, 2);
  const auto loaded = client.Load({.name = "b", .path = b.path, .acquire = true});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->reuse, client::Reuse::kFresh);
  EXPECT_EQ(Difference(*loaded->lease, b), "");
  EXPECT_EQ(std::string(static_cast<const char*>(base), 4096), first);
  munmap(base, 4096);
}

// Field case 17. A process of its own that says "unmapped" and keeps the memory in the way that the
// parameter names; see rogue_client_main.cc.
class KeptMemoryTest : public ::testing::TestWithParam<const char*> {
 protected:
  Scrape Metrics() const { return Scrape::Of(daemon_.metrics_address()); }
  // The first scrape of which `holds` is true, within kPatienceMs.
  Scrape Await(const std::function<bool(const Scrape&)>& holds) const {
    Scrape scrape = Metrics();
    EXPECT_TRUE(Eventually([&] {
      scrape = Metrics();
      return holds(scrape);
    }));
    return scrape;
  }

  const Tenured daemon_{
      TenuredSettings{.capacity = "32MiB", .segment_size = "2MiB", .cache_ttl = "0s"}};
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(8)}, 1);
  const ModelFile large_ = WriteModel(daemon_, "large", {.target = MiB(28)}, 2);
  const Client client_ = daemon_.Connect();
};

TEST_P(KeptMemoryTest, IsStrandedUntilItsHolderIsKilledAndThenFreeWithinASecond) {
  ASSERT_TRUE(
      client_.Load({.name = "a", .path = a_.path, .retention = std::chrono::nanoseconds(0)}).ok());
  const uint64_t kept = Metrics().Value("tenure_arena_reserved_bytes");
  ASSERT_GT(kept, 0U);
  RogueClient rogue(daemon_, "a", GetParam());
  ASSERT_TRUE(client_.Unload("a").ok());

  // In the very scrape in which the daemon holds none of it any more.
  const Scrape given_back =
      Await([](const Scrape& scrape) { return scrape.Value("tenure_arena_reserved_bytes") == 0; });
  EXPECT_EQ(given_back.Memory("stranded"), kept);
  EXPECT_EQ(given_back.Imbalance(), "");
  const auto refused = client_.Load({.name = "large", .path = large_.path});
  EXPECT_EQ(ErrorReason(refused.status()), "CAPACITY") << refused.status();
  const std::string message(refused.status().message());
  EXPECT_NE(message.find("stranded " + FormatBytes(Bytes(kept))), std::string::npos) << message;
  EXPECT_EQ(Metrics().Value("tenure_arena_reserved_bytes"), 0U);
  EXPECT_EQ(Metrics().Memory("stranded"), kept);

  const SteadyClock clock;
  const Instant killed = clock.Now();
  rogue.Kill();
  const Scrape free = Await([](const Scrape& scrape) { return scrape.Memory("stranded") == 0; });
  EXPECT_LT(clock.Now() - killed, kSoon);
  EXPECT_EQ(free.Imbalance(), "");
  const auto loaded = client_.Load({.name = "large", .path = large_.path, .acquire = true});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(Difference(*loaded->lease, large_), "");
}

INSTANTIATE_TEST_SUITE_P(Ways, KeptMemoryTest, ::testing::Values("keep-fds", "keep-map"),
                         [](const auto& way) {
                           std::string name(way.param);
                           std::erase(name, '-');
                           return name;
                         });

// Field case 17.
TEST(FdTest, ADaemonOutOfFdsRefusesLivesAndRecovers) {
  const Tenured daemon;
  const ModelFile a = WriteModel(daemon, "a", {.target = MiB(4)}, 1);
  const ModelFile b = WriteModel(daemon, "b", {.target = MiB(40)}, 2);
  const Client client = daemon.Connect();
  const WeightLease own = LoadAndLease(client, "a", a);
  const rlimit few{.rlim_cur = kFewFds, .rlim_max = kFewFds};
  ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  {
    std::vector<Client> crowd;
    int refused = 0;
    for (int i = 0; i < kMoreThanFit; ++i) {
      auto one =
          Client::Connect({.directory = daemon.directory(), .timeout = std::chrono::seconds(1)});
      if (one.ok()) {
        refused += one->List({.timeout = std::chrono::milliseconds(500)}).ok() ? 0 : 1;
        crowd.push_back(*std::move(one));
      } else {
        EXPECT_EQ(one.status().code(), absl::StatusCode::kResourceExhausted) << one.status();
        ++refused;
      }
    }
    EXPECT_GT(refused, 0);
    const auto loaded = client.Load({.name = "b", .path = b.path});
    EXPECT_FALSE(loaded.ok());
    EXPECT_NE(ErrorReason(loaded.status()), "") << loaded.status();
    EXPECT_TRUE(own.valid());
    EXPECT_EQ(Difference(own, a), "");
    EXPECT_TRUE(client.Acquire({.name = "a"}).ok());
  }
  // They have gone: everything works as before.
  ASSERT_TRUE(Eventually([&] {
    return client::CheckHealth(daemon.directory(), std::chrono::seconds(1)).value_or(false);
  }));
  const Client after = daemon.Connect("after");
  const auto loaded = after.Load({.name = "b", .path = b.path, .acquire = true});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(Difference(*loaded->lease, b), "");
  EXPECT_TRUE(own.valid());
}

}  // namespace
}  // namespace tenure
