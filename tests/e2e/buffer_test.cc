// Runtime memory from a daemon to buffers and back. Where the CPU cannot look at memory, on a GPU,
// what is compared is where it lies.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <filesystem>
#include <gtest/gtest.h>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"
#include "tests/support/test_backend.h"

namespace tenure {
namespace {

using client::BufferKind;
using std::chrono::hours;
using std::chrono::milliseconds;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kSegment = 2 * kMiB;
constexpr uint64_t kRuntime = 64 * kMiB;

size_t OpenFds(const std::string& process) {
  const std::filesystem::directory_iterator fds("/proc/" + process + "/fd");
  return static_cast<size_t>(std::distance(begin(fds), end(fds)));
}

void Fill(std::byte* data, uint64_t bytes, unsigned char value) {
  if (!TestsOnCuda()) memset(data, value, bytes);
}

// Whether Fill was the last to write there.
bool IsFull(const std::byte* data, uint64_t bytes, unsigned char value) {
  return TestsOnCuda() ||
         std::all_of(data, data + bytes, [&](std::byte byte) { return byte == std::byte{value}; });
}

class BufferTest : public ::testing::Test {
 protected:
  explicit BufferTest(const std::string& cache_ttl = "never")
      : daemon_(
            {.runtime = "64MiB", .runtime_segment_size = "2MiB", .runtime_cache_ttl = cache_ttl}) {}

  // A look at the metrics, and at their sums.
  Scrape Balanced() const {
    Scrape scrape = Scrape::Of(daemon_.metrics_address());
    EXPECT_EQ(scrape.Imbalance(), "");
    return scrape;
  }
  uint64_t Runtime(const std::string& state) const { return Balanced().Memory(state, "runtime"); }
  uint64_t Reserved() const {
    return Balanced().Value("tenure_arena_reserved_bytes", "arena=\"runtime\"");
  }
  static BufferPool Open(const Client& client, PoolOptions options = {.idle_ttl = hours(1)}) {
    auto pool = client.OpenPool(options);
    EXPECT_TRUE(pool.ok()) << pool.status();
    return *std::move(pool);
  }
  static PoolBuffer Take(const BufferPool& pool, uint64_t bytes,
                         const BufferOptions& options = {}) {
    auto buffer = pool.Acquire(bytes, options);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return *std::move(buffer);
  }

  const Tenured daemon_;
  const Client client_ = daemon_.Connect("first");
};

TEST_F(BufferTest, ABufferThatSpansSegmentsIsWrittenAndReleased) {
  const BufferPool pool = Open(client_);
  EXPECT_EQ(pool.held_bytes(), 0u);
  PoolBuffer buffer = Take(pool, 5 * kMiB);
  EXPECT_EQ(buffer.size_bytes(), 5 * kMiB);
  EXPECT_EQ(pool.held_bytes(), 3 * kSegment);
  Fill(buffer.data(), buffer.size_bytes(), 7);
  EXPECT_TRUE(IsFull(buffer.data(), buffer.size_bytes(), 7));
  EXPECT_EQ(Runtime("leased"), 3 * kSegment);
  ASSERT_TRUE(buffer.Release().ok());
  EXPECT_EQ(pool.used_bytes(), 0u);
  EXPECT_EQ(pool.held_bytes(), 3 * kSegment);
  // What is held serves the next ones without a call.
  const uint64_t grown = Balanced().Value("tenure_pool_segments_granted_total");
  const PoolBuffer again = Take(pool, 6 * kMiB);
  EXPECT_EQ(Balanced().Value("tenure_pool_segments_granted_total"), grown);
}

TEST_F(BufferTest, EachKindHasSegmentsOfItsOwn) {
  const BufferPool pool = Open(client_);
  std::vector<PoolBuffer> buffers;
  for (const BufferKind kind : {BufferKind::kActivation, BufferKind::kWorkspace, BufferKind::kIo}) {
    buffers.push_back(Take(pool, kMiB, {.kind = kind}));
    Fill(buffers.back().data(), kMiB, static_cast<unsigned char>(kind));
  }
  EXPECT_EQ(pool.held_bytes(), 3 * kSegment);
  for (const PoolBuffer& each : buffers) {
    EXPECT_TRUE(IsFull(each.data(), kMiB, static_cast<unsigned char>(each.kind())));
    for (const PoolBuffer& other : buffers) {
      if (&each == &other) continue;
      EXPECT_NE(each.offset() / kSegment, other.offset() / kSegment);
    }
  }
}

TEST_F(BufferTest, AScopesBuffersComeAndGoTogether) {
  const BufferPool pool = Open(client_);
  for (int request = 0; request < 3; ++request) {
    BufferScope scope = pool.OpenScope();
    std::vector<client::ScopeBuffer> buffers;
    for (int i = 0; i < 100; ++i) {
      auto buffer = scope.Acquire(100 * kKiB);
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      Fill(buffer->data, buffer->size_bytes, static_cast<unsigned char>(i));
      buffers.push_back(*buffer);
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_TRUE(IsFull(buffers[i].data, buffers[i].size_bytes, static_cast<unsigned char>(i)));
    }
    ASSERT_TRUE(scope.Release().ok());
    EXPECT_EQ(pool.used_bytes(), 0u);
  }
}

// Two clients that together want more than there is, and take turns.
TEST_F(BufferTest, ClientsNeverSeeEachOthersBytesWhileTheyAreLive) {
  const Client other = daemon_.Connect("second");
  std::vector<std::thread> threads;
  for (const Client* each : {&client_, &other}) {
    threads.emplace_back([each, this] {
      const auto own = static_cast<unsigned char>(each == &client_ ? 0 : 100);
      std::mt19937_64 random(own);
      const BufferPool pool = Open(*each, {.wait = std::chrono::seconds(20), .idle_ttl = hours(1)});
      std::deque<std::pair<PoolBuffer, unsigned char>> live;
      for (int i = 0; i < 300; ++i) {
        const auto value = static_cast<unsigned char>(own + i % 100);
        live.emplace_back(Take(pool, 1 + random() % (8 * kMiB)), value);
        Fill(live.back().first.data(), live.back().first.size_bytes(), value);
        while (live.size() > random() % 4) {
          const auto& [buffer, expected] = live.front();
          ASSERT_TRUE(IsFull(buffer.data(), buffer.size_bytes(), expected));
          live.pop_front();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Balanced();
}

TEST_F(BufferTest, WhatIsNotNeededGoesBackToTheDaemonAfterItsTime) {
  const BufferPool pool = Open(client_, {.idle_ttl = milliseconds(300)});
  PoolBuffer buffer = Take(pool, 20 * kMiB);
  const PoolBuffer small = Take(pool, kKiB, {.kind = BufferKind::kIo});
  ASSERT_TRUE(buffer.Release().ok());
  EXPECT_TRUE(Eventually([&] { return pool.held_bytes() == kSegment; }));
  EXPECT_TRUE(Eventually([&] { return Runtime("leased") == kSegment; }));
  EXPECT_EQ(Runtime("cached"), 20 * kMiB);
  EXPECT_TRUE(small.valid());
}

TEST_F(BufferTest, WhatOneHoldsInVainIsAnothersAtOnce) {
  const BufferPool pool = Open(client_);
  const PoolBuffer kept = Take(pool, kMiB);
  Fill(kept.data(), kMiB, 1);
  ASSERT_TRUE(Take(pool, kRuntime - kSegment, {.kind = BufferKind::kIo}).Release().ok());
  EXPECT_EQ(pool.held_bytes(), kRuntime);

  const Client other = daemon_.Connect("second");
  const BufferPool others = Open(other);
  const SteadyClock clock;
  const Instant start = clock.Now();
  const PoolBuffer all = Take(others, kRuntime - kSegment);
  Fill(all.data(), all.size_bytes(), 2);
  // Guards against a hang: ten times what is promised.
  EXPECT_LT(clock.Now() - start, std::chrono::seconds(10));
  EXPECT_EQ(pool.held_bytes(), kSegment);
  EXPECT_TRUE(IsFull(kept.data(), kMiB, 1));
  // And no more than that.
  const auto refused = others.Acquire(1);
  EXPECT_EQ(ErrorReason(refused.status()), "HELD_BY_LEASES") << refused.status();
  EXPECT_TRUE(kept.valid());
}

TEST_F(BufferTest, ARefusalSaysWhoHoldsTheRest) {
  const BufferPool pool = Open(client_);
  const PoolBuffer most = Take(pool, kRuntime - kSegment);
  const Client other = daemon_.Connect("second");
  const auto refused = Open(other).Acquire(2 * kSegment);
  EXPECT_EQ(ErrorReason(refused.status()), "HELD_BY_LEASES");
  EXPECT_NE(refused.status().message().find("first/"), std::string::npos) << refused.status();
  EXPECT_EQ(ErrorReason(Open(other).Acquire(kRuntime + 1).status()), "CAPACITY");
}

class BufferFloorTest : public BufferTest {
 protected:
  BufferFloorTest() : BufferTest("200ms") {}
};

// What is held falls back to what the small ones need.
TEST_F(BufferFloorTest, AGiantRequestDoesNotInflateThePoolForEver) {
  const BufferPool pool = Open(client_, {.idle_ttl = milliseconds(200)});
  const auto small = [&] {
    std::deque<PoolBuffer> live;
    for (int i = 0; i < 2000; ++i) {
      live.push_back(Take(pool, 4 * kKiB));
      if (live.size() > 16) live.pop_front();
    }
  };
  small();
  EXPECT_TRUE(Eventually([&] { return Reserved() <= kSegment; }));
  ASSERT_TRUE(Take(pool, 48 * kMiB).Release().ok());
  EXPECT_GE(Reserved(), 48 * kMiB);
  EXPECT_TRUE(Eventually([&] {
    small();
    return Reserved() == kSegment && pool.held_bytes() == kSegment;
  })) << Reserved();
}

// Sizes that never come twice in a row leave no holes that would have to be grown around.
TEST_F(BufferTest, FiveHundredSizesInRotationNeedWhatIsLiveAndASegmentMore) {
  const BufferPool pool = Open(client_);
  std::mt19937_64 random(7);
  std::vector<uint64_t> sizes;
  for (int i = 0; i < 500; ++i) sizes.push_back(1 + random() % (256 * kKiB));
  uint64_t most_live = 0;
  uint64_t most_held = 0;
  for (int round = 0; round < 20; ++round) {
    std::deque<PoolBuffer> live;
    for (const uint64_t size : sizes) {
      live.push_back(Take(pool, size));
      most_live = std::max(most_live, pool.used_bytes());
      most_held = std::max(most_held, pool.held_bytes());
      if (live.size() > 64) live.pop_front();
    }
  }
  const uint64_t rounded = (most_live + kSegment - 1) / kSegment * kSegment;
  EXPECT_LE(most_held, rounded + kSegment) << "live " << most_live;
  EXPECT_LE(Balanced().Memory("leased", "runtime"), rounded + kSegment);
}

// Field case 1, the second part.
TEST_F(BufferTest, NothingThatRuntimeMemoryGoesThroughTouchesTheWeights) {
  const ModelFile file = WriteModel(daemon_, "a", {.target = MiB(16)}, 1);
  const WeightLease lease = LoadAndLease(client_, "a", file);
  const auto weights = [this] {
    const Scrape scrape = Balanced();
    std::vector<uint64_t> values;
    for (const char* name : {"tenure_arena_largest_free_bytes", "tenure_arena_reserved_bytes",
                             "tenure_arena_allocated_bytes", "tenure_arena_capacity_bytes"}) {
      values.push_back(scrape.Value(name, "arena=\"weights\""));
    }
    return values;
  };
  const std::vector<uint64_t> before = weights();
  const BufferPool pool = Open(client_);
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(Take(pool, 32 * kMiB).Release().ok());
    EXPECT_EQ(weights(), before);
    std::vector<PoolBuffer> small;
    for (int i = 0; i < 32; ++i) small.push_back(Take(pool, kSegment));
    for (size_t i = 0; i < small.size(); i += 2) ASSERT_TRUE(small[i].Release().ok());
    EXPECT_EQ(weights(), before);
    EXPECT_FALSE(pool.Acquire(40 * kMiB).ok());
    pool.Trim();
    EXPECT_EQ(weights(), before);
  }
  EXPECT_EQ(Difference(lease, file), "");
}

// Field case 17.
TEST_F(BufferTest, NoDescriptorStaysHoweverOftenMemoryIsTakenAndGivenBack) {
  const BufferPool pool = Open(client_);
  const std::string daemon = std::to_string(daemon_.pid());
  const auto cycle = [&] {
    ASSERT_TRUE(Take(pool, 3 * kSegment).Release().ok());
    EXPECT_EQ(pool.Trim(), 3 * kSegment);
    ASSERT_TRUE(Eventually([&] { return Runtime("leased") == 0; }));
  };
  for (int i = 0; i < 3; ++i) cycle();
  // A scrape may still be on its way out, which is one more.
  const size_t own = OpenFds("self");
  const size_t theirs = OpenFds(daemon);
  const auto no_more = [&] {
    return Eventually([&] { return OpenFds("self") <= own && OpenFds(daemon) <= theirs; });
  };
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(Take(pool, kMiB).Release().ok());
  pool.Trim();
  ASSERT_TRUE(Eventually([&] { return Runtime("leased") == 0; }));
  EXPECT_TRUE(no_more()) << own << " " << OpenFds("self") << " " << OpenFds(daemon);
  for (int i = 0; i < 200; ++i) cycle();
  EXPECT_TRUE(no_more()) << own << " " << OpenFds("self") << " " << OpenFds(daemon);
}

// Field case 34.
TEST_F(BufferTest, EveryStepMovesBytesFromOneStateToTheNext) {
  const auto expect = [this](uint64_t leased, uint64_t cached, uint64_t pools) {
    const auto holds = [&] {
      const Scrape scrape = Balanced();
      return scrape.Memory("leased", "runtime") == leased &&
             scrape.Memory("cached", "runtime") == cached &&
             scrape.Memory("unbacked", "runtime") == kRuntime - leased - cached &&
             scrape.Value("tenure_pools") == pools &&
             scrape.Value("tenure_arena_largest_free_bytes", "arena=\"runtime\"") ==
                 kRuntime - leased;
    };
    EXPECT_TRUE(Eventually(holds)) << "leased " << leased << " cached " << cached;
  };
  expect(0, 0, 0);
  std::optional<BufferPool> pool = Open(client_);
  expect(0, 0, 1);
  PoolBuffer first = Take(*pool, kKiB);
  expect(kSegment, 0, 1);
  PoolBuffer second = Take(*pool, kKiB);
  expect(kSegment, 0, 1);
  PoolBuffer large = Take(*pool, 7 * kMiB);
  expect(5 * kSegment, 0, 1);
  ASSERT_TRUE(large.Release().ok());
  expect(5 * kSegment, 0, 1);
  EXPECT_EQ(pool->Trim(), 4 * kSegment);
  expect(kSegment, 4 * kSegment, 1);
  BufferScope scope = pool->OpenScope(BufferKind::kWorkspace);
  ASSERT_TRUE(scope.Acquire(3 * kMiB).ok());
  expect(3 * kSegment, 2 * kSegment, 1);
  pool.reset();
  expect(3 * kSegment, 2 * kSegment, 1);
  ASSERT_TRUE(scope.Release().ok());
  ASSERT_TRUE(first.Release().ok());
  ASSERT_TRUE(second.Release().ok());
  expect(0, 5 * kSegment, 1);
  EXPECT_EQ(Balanced().Value("tenure_pool_segments_granted_total"), 7u);
}

TEST_F(BufferTest, BuffersOutliveThePoolAndTheClientThatTheyCameFrom) {
  std::optional<Client> client = daemon_.Connect("brief");
  std::optional<BufferPool> pool = Open(*client);
  PoolBuffer buffer = Take(*pool, kMiB);
  Fill(buffer.data(), kMiB, 3);
  pool.reset();
  client.reset();
  EXPECT_TRUE(buffer.valid());
  EXPECT_TRUE(IsFull(buffer.data(), kMiB, 3));
  EXPECT_EQ(client_.Sessions()->size(), 2u);
  ASSERT_TRUE(buffer.Release().ok());
  EXPECT_TRUE(Eventually([&] { return client_.Sessions()->size() == 1; }));
  EXPECT_TRUE(Eventually([&] { return Runtime("leased") == 0; }));
}

// The end of the last reader counts, not that of the pool.
TEST_F(BufferTest, WhatIsStillReadStaysWhenItsPoolIsGone) {
  Timeline reader;
  std::optional<BufferPool> pool = Open(client_);
  PoolBuffer buffer = Take(*pool, kMiB);
  std::byte* const data = buffer.data();
  Fill(data, kMiB, 4);
  ASSERT_TRUE(buffer.Release(Fence::At(reader, 1)).ok());
  pool.reset();
  // It has been swept once another pool, which is swept with it, has given back what it took since.
  const BufferPool other = Open(client_, {.idle_ttl = milliseconds(1)});
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Take(other, kMiB).Release().ok());
    EXPECT_TRUE(Eventually([&] { return other.held_bytes() == 0; }));
  }
  EXPECT_TRUE(Eventually([&] { return Runtime("leased") == kSegment; }));
  EXPECT_TRUE(IsFull(data, kMiB, 4));
  reader.Advance(1);
  EXPECT_TRUE(Eventually([&] { return Runtime("leased") == 0; }));

  {
    const Timeline never;
    pool = Open(client_);
    ASSERT_TRUE(Take(*pool, kMiB).Release(Fence::At(never, 1)).ok());
    pool.reset();
    EXPECT_EQ(Runtime("leased"), kSegment);
  }
  EXPECT_TRUE(Eventually([&] { return Runtime("leased") == 0; }));
}

TEST_F(BufferTest, ADeviceThatIsNotThereIsRefused) {
  EXPECT_EQ(ErrorReason(client_.OpenPool({.device = "gpu:9"}).status()), "DEVICE_NOT_FOUND");
}

}  // namespace
}  // namespace tenure
