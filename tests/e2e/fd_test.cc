// File descriptors: what clients keep of them, and a daemon that runs out of them.

#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <utility>
#include <vector>

#include "core/base/unique_fd.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"
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
// the daemon gives that up and hands it to nobody. Such bytes count as free, though the machine
// gets them back only when the last fd is closed.
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
