// Requests of one shape, each in a planned slot. Where the CPU cannot look at memory, on a GPU,
// what is compared is where it lies.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"
#include "tests/support/test_backend.h"

namespace tenure {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A and C are not in use at once.
std::vector<BufferUse> ThreeBuffers() {
  return {{.id = "A", .bytes = 4 * kMiB, .first_use = 0, .end = 3},
          {.id = "B", .bytes = 6 * kMiB, .first_use = 1, .end = 4},
          {.id = "C", .bytes = 4 * kMiB, .first_use = 3, .end = 5}};
}

class PlanTest : public ::testing::Test {
 protected:
  uint64_t Leased() const {
    const Scrape scrape = Scrape::Of(daemon_.metrics_address());
    EXPECT_EQ(scrape.Imbalance(), "");
    return scrape.Memory("leased", "runtime");
  }
  bool LeasedBecomes(uint64_t bytes) const {
    return Eventually([&] { return Leased() == bytes; });
  }
  static BufferPlan PlanOf(const BufferPool& pool, const std::vector<BufferUse>& uses) {
    auto plan = pool.Plan(uses);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }
  static PlannedSlot Open(const BufferPlan& plan) {
    auto slot = plan.OpenSlot();
    EXPECT_TRUE(slot.ok()) << slot.status();
    return *std::move(slot);
  }

  Tenured daemon_{
      {.runtime = "64MiB", .runtime_segment_size = "2MiB", .runtime_cache_ttl = "never"}};
  const Client client_ = daemon_.Connect("planner");
  const BufferPool pool_ = *client_.OpenPool({.idle_ttl = std::chrono::hours(1)});
};

TEST_F(PlanTest, APlanTakesLessThanItsBuffersDo) {
  {
    std::vector<PoolBuffer> unplanned;
    for (const BufferUse& use : ThreeBuffers()) unplanned.push_back(*pool_.Acquire(use.bytes));
    EXPECT_EQ(Leased(), 14 * kMiB);
  }
  pool_.Trim();
  EXPECT_TRUE(LeasedBecomes(0));

  const BufferPlan plan = PlanOf(pool_, ThreeBuffers());
  EXPECT_EQ(plan.height(), 10 * kMiB);
  EXPECT_TRUE(plan.proven());
  PlannedSlot slot = Open(plan);
  EXPECT_EQ(Leased(), 10 * kMiB);

  std::vector<BufferUse> longer = ThreeBuffers();
  longer[0].end = 5;
  const absl::Status overlap = plan.Check(longer);
  EXPECT_EQ(ErrorReason(overlap), "PLAN_OVERLAP") << overlap;
  ASSERT_TRUE(slot.Acquire("A", 4 * kMiB).ok());
  const absl::Status taken = slot.Acquire("C", 4 * kMiB).status();
  EXPECT_EQ(ErrorReason(taken), "PLAN_OVERLAP") << taken;
  EXPECT_EQ(PlanOf(pool_, longer).height(), 14 * kMiB);
}

TEST_F(PlanTest, SlotsTakeExactlyTheirHeightAndGiveItBack) {
  // No multiple of anything but 256.
  const BufferPlan plan = PlanOf(pool_, {{.id = "x", .bytes = 3 * kMiB + 700, .end = 2},
                                         {.id = "y", .bytes = 1000, .first_use = 1, .end = 3}});
  const uint64_t each = (plan.height() + 255) / 256 * 256;
  std::vector<PlannedSlot> slots;
  for (uint64_t n = 1; n <= 8; ++n) {
    slots.push_back(Open(plan));
    EXPECT_EQ(Leased(), n * each);
  }
  // They are kept for the next requests.
  slots.clear();
  EXPECT_EQ(Leased(), 8 * each);
  for (int n = 0; n < 8; ++n) slots.push_back(Open(plan));
  EXPECT_EQ(Leased(), 8 * each);
  slots.erase(slots.begin() + 4, slots.end());
  EXPECT_EQ(pool_.Trim(), 4 * each);
  EXPECT_TRUE(LeasedBecomes(4 * each));
  slots.clear();
  pool_.Trim();
  EXPECT_TRUE(LeasedBecomes(0));
}

TEST_F(PlanTest, SlotsAreOpenedByManyThreadsAtOnceAndShareNoByte) {
  const BufferPlan plan = PlanOf(pool_, {{.id = "x", .bytes = kMiB / 2 + 256, .end = 1}});
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto value = static_cast<unsigned char>(thread);
      for (int i = 0; i < 50; ++i) {
        std::vector<PlannedSlot> slots;
        std::vector<SlotBuffer> buffers;
        for (int n = 0; n < 6; ++n) {
          slots.push_back(Open(plan));
          buffers.push_back(*slots.back().Acquire("x", kMiB / 2));
          if (TestsOnCuda()) continue;
          std::fill_n(buffers.back().data, kMiB / 2, std::byte{value});
        }
        if (i % 8 == thread) pool_.Trim();
        for (const SlotBuffer& buffer : buffers) {
          if (TestsOnCuda()) break;
          EXPECT_TRUE(std::all_of(buffer.data, buffer.data + kMiB / 2,
                                  [&](std::byte byte) { return byte == std::byte{value}; }));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  pool_.Trim();
  EXPECT_TRUE(LeasedBecomes(0));
}

TEST_F(PlanTest, MemoryOfIdleSlotsMakesRoomForWhatElseThePoolNeeds) {
  const BufferPlan plan = PlanOf(pool_, {{.id = "x", .bytes = 40 * kMiB, .end = 1}});
  ASSERT_TRUE(Open(plan).Close().ok());
  EXPECT_EQ(Leased(), 40 * kMiB);
  {
    auto buffer = pool_.Acquire(30 * kMiB);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
  }
  EXPECT_EQ(Open(plan).Acquire("x", 1)->size_bytes, 1u);
  const BufferPlan higher = PlanOf(pool_, {{.id = "x", .bytes = 50 * kMiB, .end = 1}});
  EXPECT_TRUE(higher.OpenSlot().ok());
}

TEST_F(PlanTest, MemoryOfIdleSlotsGoesToOthersWhoNeedIt) {
  const BufferPlan plan = PlanOf(pool_, {{.id = "x", .bytes = 20 * kMiB, .end = 1}});
  ASSERT_TRUE(Open(plan).Close().ok());
  PlannedSlot slot = Open(plan);
  std::optional<PlannedSlot> idle = Open(plan);
  idle.reset();
  EXPECT_EQ(Leased(), 40 * kMiB);
  const Client other = daemon_.Connect("other");
  const BufferPool pool = *other.OpenPool();
  auto buffer = pool.Acquire(40 * kMiB);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(Leased(), 60 * kMiB);
  EXPECT_TRUE(slot.valid());
}

// A multilayer perceptron: each layer's output is used by the next one only, but for the first,
// which is added in the end.
struct Perceptron {
  static constexpr size_t kWidth = 96;
  static constexpr size_t kRows = 8;
  static constexpr size_t kLayers = 6;
  static constexpr uint64_t kBytes = kRows * kWidth * sizeof(float);

  static std::string Name(size_t layer) { return "layer" + std::to_string(layer); }

  static std::vector<BufferUse> Uses() {
    std::vector<BufferUse> uses;
    for (size_t layer = 0; layer <= kLayers; ++layer) {
      const auto first = static_cast<int64_t>(layer);
      uses.push_back({.id = Name(layer), .bytes = kBytes, .first_use = first, .end = first + 2});
    }
    uses.front().end = int64_t{kLayers} + 1;
    uses.back().output = true;
    return uses;
  }
  static float Weight(size_t layer, size_t row, size_t column) {
    return static_cast<float>((layer * 31 + row * 7 + column * 3) % 17) / 64.0F - 0.125F;
  }

  // What `acquire` gives is filled layer by layer, and let go of with `release`.
  template <typename Acquire, typename Release>
  static std::vector<float> Run(float seed, const Acquire& acquire, const Release& release) {
    const auto at = [](size_t row, size_t column) { return row * kWidth + column; };
    float* const first = acquire(0);
    for (size_t i = 0; i < kRows * kWidth; ++i) first[i] = seed / static_cast<float>(i + 1);
    float* last = first;
    for (size_t layer = 1; layer <= kLayers; ++layer) {
      float* const next = acquire(layer);
      for (size_t row = 0; row < kRows; ++row) {
        for (size_t column = 0; column < kWidth; ++column) {
          float sum = 0;
          for (size_t i = 0; i < kWidth; ++i) sum += last[at(row, i)] * Weight(layer, i, column);
          next[at(row, column)] = std::max(sum, 0.0F);
        }
      }
      if (layer > 1) release(layer - 1);
      last = next;
    }
    for (size_t i = 0; i < kRows * kWidth; ++i) last[i] += first[i];
    release(0);
    std::vector<float> result(last, last + kRows * kWidth);
    release(kLayers);
    return result;
  }
};

TEST_F(PlanTest, FourRequestsAtOnceComputeInTheirSlotsWhatTheyDoWithoutAPlan) {
  const BufferPlan plan = PlanOf(pool_, Perceptron::Uses());
  EXPECT_EQ(plan.height(), 3 * Perceptron::kBytes);
  constexpr int kRequests = 4;
  std::latch all_open(kRequests + 1);
  std::latch measured(1);
  std::vector<std::vector<float>> results(kRequests);
  std::vector<std::thread> requests;
  for (int request = 0; request < kRequests; ++request) {
    requests.emplace_back([&, request] {
      PlannedSlot slot = Open(plan);
      all_open.arrive_and_wait();
      measured.wait();
      for (int round = 0; round < 20; ++round) {
        results[static_cast<size_t>(request)] = Perceptron::Run(
            static_cast<float>(request + 1),
            [&](size_t layer) {
              auto buffer = slot.Acquire(layer, Perceptron::kBytes, 256);
              EXPECT_TRUE(buffer.ok()) << buffer.status();
              return reinterpret_cast<float*>(buffer->data);
            },
            [&](size_t layer) { EXPECT_TRUE(slot.Release(Perceptron::Name(layer)).ok()); });
      }
    });
  }
  all_open.arrive_and_wait();
  EXPECT_EQ(Leased(), kRequests * plan.height());
  measured.count_down();
  for (std::thread& request : requests) request.join();
  for (int request = 0; request < kRequests; ++request) {
    std::vector<std::vector<float>> layers(Perceptron::kLayers + 1);
    const std::vector<float> unplanned = Perceptron::Run(
        static_cast<float>(request + 1),
        [&](size_t layer) {
          layers[layer].resize(Perceptron::kRows * Perceptron::kWidth);
          return layers[layer].data();
        },
        [](size_t) {});
    EXPECT_EQ(results[static_cast<size_t>(request)], unplanned);
    EXPECT_NE(unplanned, results[static_cast<size_t>((request + 1) % kRequests)]);
  }
}

TEST_F(PlanTest, ARecordedRequestIsPlannedForTheNextOnes) {
  BufferRecording recording = *pool_.Record();
  {
    PoolBuffer a = *pool_.Acquire(kMiB);
    PoolBuffer b = *pool_.Acquire(2 * kMiB);
    ASSERT_TRUE(a.Release().ok());
    PoolBuffer c = *pool_.Acquire(kMiB);
  }
  const std::vector<BufferUse> uses = UsesOf(recording.Finish());
  pool_.Trim();
  const BufferPlan plan = PlanOf(pool_, uses);
  EXPECT_EQ(plan.height(), 3 * kMiB);
  EXPECT_TRUE(plan.Check(uses).ok());
  PlannedSlot slot = Open(plan);
  EXPECT_TRUE(LeasedBecomes(3 * kMiB));
  ASSERT_TRUE(slot.Acquire("0", kMiB).ok());
  ASSERT_TRUE(slot.Acquire("1", 2 * kMiB).ok());
  ASSERT_TRUE(slot.Release("0").ok());
  EXPECT_TRUE(slot.Acquire("2", kMiB).ok());
}

TEST_F(PlanTest, ASlotOutlivesThePoolAndTheClientThatItCameFrom) {
  std::optional<Client> client = daemon_.Connect("brief");
  std::optional<BufferPool> pool = *client->OpenPool();
  std::optional<PlannedSlot> slot = Open(PlanOf(*pool, ThreeBuffers()));
  pool.reset();
  client.reset();
  EXPECT_TRUE(slot->valid());
  EXPECT_TRUE(slot->Acquire("A", 1).ok());
  EXPECT_EQ(Leased(), 10 * kMiB);
  slot.reset();
  EXPECT_TRUE(Eventually([&] { return client_.Sessions()->size() == 1; }));
  EXPECT_TRUE(LeasedBecomes(0));
}

}  // namespace
}  // namespace tenure
