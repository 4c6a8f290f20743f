// Processes that die or stand still while they hold runtime memory, and a daemon that dies.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/buffer_holder.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"
#include "tests/support/socket_relay.h"
#include "tests/support/test_backend.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSegment = 2 * kMiB;
constexpr uint64_t kRuntime = 32 * kMiB;
constexpr int kTtlMs = 300;

// Guards against a hang: ten times what is promised.
constexpr auto kSoon = std::chrono::seconds(10);

class BufferDeathTest : public ::testing::Test {
 protected:
  explicit BufferDeathTest(const std::string& lease_ttl = "30s",
                           const std::string& heartbeat_interval = "5s")
      : daemon_({.runtime = "32MiB",
                 .runtime_segment_size = "2MiB",
                 .lease_ttl = lease_ttl,
                 .heartbeat_interval = heartbeat_interval}) {}

  Scrape Balanced() const {
    Scrape scrape = Scrape::Of(daemon_.metrics_address());
    EXPECT_EQ(scrape.Imbalance(), "");
    return scrape;
  }
  uint64_t Runtime(const std::string& state) const { return Balanced().Memory(state, "runtime"); }
  bool Eventually(const std::string& state, uint64_t bytes) const {
    return tenure::Eventually([&] { return Runtime(state) == bytes; });
  }
  // Another client gets all there is, soon.
  void ExpectAllIsFreeSoon() const {
    const SteadyClock clock;
    const Instant start = clock.Now();
    const Client other = daemon_.Connect("heir");
    const auto pool = other.OpenPool({.wait = kSoon});
    ASSERT_TRUE(pool.ok()) << pool.status();
    const auto all = pool->Acquire(kRuntime);
    EXPECT_TRUE(all.ok()) << all.status();
    EXPECT_LT(clock.Now() - start, kSoon);
    EXPECT_EQ(Runtime("quarantined"), 0u);
  }

  Tenured daemon_;
};

// Field case 16.
TEST_F(BufferDeathTest, AKilledClientsMemoryIsAnothersAtOnce) {
  const Client other = daemon_.Connect("bystander");
  const auto pool = other.OpenPool();
  ASSERT_TRUE(pool.ok());
  const uint64_t lost = Balanced().Value("tenure_clients_lost_total");
  {
    const auto own = pool->Acquire(kMiB);
    ASSERT_TRUE(own.ok());
    BufferHolder holder(daemon_.directory(), 16 * kMiB);
    EXPECT_EQ(Runtime("leased"), 16 * kMiB + kSegment);
    holder.Kill();
    EXPECT_TRUE(Eventually("leased", kSegment));
    EXPECT_TRUE(own->valid());
  }
  pool->Trim();
  ExpectAllIsFreeSoon();
  EXPECT_EQ(Balanced().Value("tenure_clients_lost_total"), lost + 1);
}

// Field case 16.
TEST_F(BufferDeathTest, WhatWasGrantedToAClientThatDiedBeforeTheReplyIsFree) {
  SocketRelay relay(daemon_.directory());
  BufferHolder holder(relay.directory(), 16 * kMiB, "later");
  relay.HoldReplies();
  holder.Nudge();
  EXPECT_TRUE(Eventually("leased", 16 * kMiB));
  holder.Kill();
  ExpectAllIsFreeSoon();
}

// Field case 16. A child has neither the lease nor the memory.
TEST_F(BufferDeathTest, AForkedChildDoesNotKeepWhatItsParentHeld) {
  BufferHolder holder(daemon_.directory(), 16 * kMiB, "fork");
  ASSERT_GT(holder.child(), 0);
  holder.Kill();
  ExpectAllIsFreeSoon();
  EXPECT_TRUE(tenure::Eventually([&] { return Runtime("leased") == 0; }));
  EXPECT_EQ(Runtime("stranded"), 0u);
}

// Field case 35.
TEST_F(BufferDeathTest, TheOnlyClientsDeathShowsInTheMetricsWithoutAnyCall) {
  BufferHolder holder(daemon_.directory(), 16 * kMiB);
  EXPECT_EQ(Balanced().Value("tenure_pools"), 1u);
  const SteadyClock clock;
  const Instant start = clock.Now();
  holder.Kill();
  EXPECT_TRUE(Eventually("leased", 0));
  // Guards against a hang: ten times what is promised.
  EXPECT_LT(clock.Now() - start, std::chrono::seconds(20));
  EXPECT_EQ(Balanced().Value("tenure_pools"), 0u);
  EXPECT_EQ(Runtime("cached") + Runtime("unbacked"), kRuntime);
}

TEST_F(BufferDeathTest, APoolOfADaemonThatWasKilledIsStrandedUntilItIsClosed) {
  const Client client = daemon_.Connect("survivor");
  std::optional<BufferPool> pool = *client.OpenPool();
  std::optional<PoolBuffer> buffer = *pool->Acquire(7 * kMiB);
  if (!TestsOnCuda()) memset(buffer->data(), 5, buffer->size_bytes());
  daemon_.Kill();
  EXPECT_TRUE(tenure::Eventually([&] { return !pool->valid(); }));
  EXPECT_EQ(ErrorReason(pool->Acquire(1).status()), "DAEMON_GONE");
  daemon_.Start();
  ASSERT_TRUE(client.List().ok());  // finds the next daemon
  EXPECT_TRUE(Eventually("stranded", 4 * kSegment));
  EXPECT_EQ(Runtime("unbacked"), kRuntime - 4 * kSegment);

  // Still there, though nobody promises it any more.
  EXPECT_FALSE(buffer->valid());
  if (!TestsOnCuda()) {
    EXPECT_TRUE(std::all_of(buffer->data(), buffer->data() + buffer->size_bytes(),
                            [](std::byte byte) { return byte == std::byte{5}; }));
    memset(buffer->data(), 6, buffer->size_bytes());
  }
  // Beside it the client has a pool of the next daemon.
  auto next = client.OpenPool();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(ErrorReason(next->Acquire(kRuntime).status()), "CAPACITY");
  const auto rest = next->Acquire(kRuntime - 4 * kSegment);
  ASSERT_TRUE(rest.ok()) << rest.status();
  if (!TestsOnCuda()) memset(rest->data(), 9, rest->size_bytes());
  EXPECT_TRUE(TestsOnCuda() || buffer->data()[0] == std::byte{6});

  EXPECT_TRUE(buffer->Release().ok());
  buffer.reset();
  pool.reset();
  EXPECT_TRUE(Eventually("stranded", 0));
  EXPECT_EQ(Runtime("unbacked"), 4 * kSegment);
  EXPECT_TRUE(next->Acquire(4 * kSegment).ok());
}

class StoppedHolderTest : public BufferDeathTest {
 protected:
  StoppedHolderTest() : BufferDeathTest(std::to_string(kTtlMs) + "ms", "100ms") {}
};

// Field case 49.
TEST_F(StoppedHolderTest, NobodyGetsTheMemoryThatAStoppedClientMayStillWrite) {
  BufferHolder holder(daemon_.directory(), 16 * kMiB, "write");
  const SteadyClock clock;
  holder.Pause();
  const Instant start = clock.Now();
  ASSERT_TRUE(tenure::Eventually([&] { return clock.Now() - start > milliseconds(3 * kTtlMs); }));
  ASSERT_TRUE(Eventually("quarantined", 16 * kMiB));
  EXPECT_EQ(Balanced().Value("tenure_pools_expired_total"), 1u);

  const Client other = daemon_.Connect("second");
  auto pool = other.OpenPool();
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ(ErrorReason(pool->Acquire(kRuntime).status()), "HELD_BY_LEASES");
  std::vector<PoolBuffer> buffers;
  while (true) {
    auto buffer = pool->Acquire(kSegment);
    if (!buffer.ok()) break;
    if (!TestsOnCuda()) memset(buffer->data(), 99, kSegment);
    buffers.push_back(*std::move(buffer));
  }
  EXPECT_EQ(buffers.size() * kSegment, kRuntime - 16 * kMiB);
  const auto unchanged = [&](const PoolBuffer& buffer) {
    return TestsOnCuda() || std::all_of(buffer.data(), buffer.data() + kSegment,
                                        [](std::byte byte) { return byte == std::byte{99}; });
  };

  holder.Resume();
  const auto told = [&](const std::string& words) {
    return tenure::Eventually([&] { return holder.Out().find(words) != std::string::npos; });
  };
  EXPECT_TRUE(told("lost LEASE_EXPIRED\n") || told("lost HEARTBEAT_MISSED\n")) << holder.Out();
  EXPECT_TRUE(std::all_of(buffers.begin(), buffers.end(), unchanged));
  // It lives and answers: it has given back what it lost, and gets as much again.
  EXPECT_TRUE(told("again ok\n")) << holder.Out();
  EXPECT_EQ(Runtime("quarantined"), 0u);
  EXPECT_TRUE(std::all_of(buffers.begin(), buffers.end(), unchanged));
  EXPECT_TRUE(pool->valid());
  EXPECT_EQ(holder.Out().find("wrong"), std::string::npos) << holder.Out();
}

// Field case 51.
TEST_F(StoppedHolderTest, AClientThatDoesNothingForLongKeepsItsPool) {
  const Client client = daemon_.Connect("idle");
  const auto pool = client.OpenPool();
  ASSERT_TRUE(pool.ok());
  const auto buffer = pool->Acquire(kMiB);
  ASSERT_TRUE(buffer.ok());
  const SteadyClock clock;
  const Instant start = clock.Now();
  ASSERT_TRUE(tenure::Eventually([&] { return clock.Now() - start > milliseconds(5 * kTtlMs); }));
  EXPECT_TRUE(buffer->valid());
  EXPECT_EQ(Balanced().Value("tenure_pools_expired_total"), 0u);
  EXPECT_EQ(Runtime("leased"), kSegment);
}

}  // namespace
}  // namespace tenure
