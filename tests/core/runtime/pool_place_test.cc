// Requests of all sizes for a pool that is nearly full.

#include <gtest/gtest.h>
#include <random>

#include "tests/core/runtime/pool_of.h"

namespace tenure {
namespace {

constexpr Bytes kSegment = KiB(64);
constexpr Bytes kKind = kSegment * 16;

class PoolPlacePropertyTest : public ::testing::TestWithParam<uint32_t> {};

// Once what is missing has come, hardly ever is anything else missing; and what is not placed
// changes nothing.
TEST_P(PoolPlacePropertyTest, WhatIsMissingIsNearlyAlwaysAllThatIsMissing) {
  std::mt19937_64 random(GetParam());
  const auto below = [&](uint64_t limit) {
    return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random);
  };
  PoolOf pool({.segment_size = kSegment, .kind_bytes = kKind});
  std::vector<Buffer> held;
  int grown = 0;
  int refused = 0;
  int grown_again = 0;
  for (int step = 0; step < 2'000 && !HasFailure(); ++step) {
    SCOPED_TRACE(testing::Message() << "seed " << GetParam() << " step " << step);
    std::vector<BufferSpec> specs;
    for (uint64_t i = 0, count = 1 + below(6); i < count; ++i) {
      specs.push_back({.size = Bytes(1 + below(kSegment.count() * (below(4) == 0 ? 5 : 1))),
                       .alignment = Bytes(uint64_t{1} << below(17)),
                       .kind = kAllBufferKinds[below(3)]});
    }
    const Bytes blocks = pool->bytes().blocks;
    const Bytes largest = pool->LargestFree(3);
    Pool::Placement placement = pool->Place(specs);
    if (!placement.placed()) {
      pool->Validate();
      EXPECT_EQ(pool->bytes().blocks, blocks);
      EXPECT_EQ(pool->LargestFree(3), largest);
    }
    refused += !placement.possible();
    for (int round = 0; !placement.missing.empty(); ++round) {
      ASSERT_LT(round, 3);
      ++(round == 0 ? grown : grown_again);
      pool.Bring(placement.missing);
      placement = pool->Place(specs);
    }
    for (const Buffer& buffer : pool.Add(specs, placement)) held.push_back(buffer);
    while (held.size() > 20 || (!held.empty() && below(2) == 0)) {
      std::swap(held[below(held.size())], held.back());
      pool.Release(held.back());
      held.pop_back();
    }
    if (below(3) != 0) continue;
    std::vector<Bytes> unused;
    for (const auto& [offset, segment] : pool->segments()) {
      if (pool->Unused(offset) && below(2) == 0) unused.push_back(offset);
    }
    for (const Bytes offset : unused) {
      pool->Close(offset, kStart);
      (void)pool->Take(offset);
    }
  }
  EXPECT_GT(grown, 200);
  EXPECT_GT(refused, 20);
  EXPECT_LT(grown_again, grown / 20);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PoolPlacePropertyTest, ::testing::Range(1U, 9U));

}  // namespace
}  // namespace tenure
