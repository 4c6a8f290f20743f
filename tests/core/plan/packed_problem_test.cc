#include "core/plan/packed_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "tests/core/plan/random_input.h"

namespace tenure {
namespace {

using testing::ElementsAre;

Storage Alive(uint64_t size, std::vector<Lifespan> alive) {
  return {.size = Bytes(size), .alive = std::move(alive)};
}

TEST(PackedProblemTest, ASectionIsALargestSetAliveTogether) {
  // a alone, a and b, b alone, b and c: two sections.
  const PackedProblem packed = Pack(
      {.storages = {Alive(1, {{0, 4}}), Alive(2, {{3, 9}}), Alive(4, {{7, 8}})}, .storage_of = {}});
  EXPECT_EQ(packed.sections, 2U);
  EXPECT_THAT(packed.load, ElementsAre(3, 6));
  EXPECT_EQ(packed.hull(0), (SectionRange{0, 1}));
  EXPECT_EQ(packed.hull(1), (SectionRange{0, 2}));
  EXPECT_EQ(packed.hull(2), (SectionRange{1, 2}));
}

TEST(PackedProblemTest, AnEndMakesRoomForABeginAtTheSameStep) {
  const PackedProblem packed =
      Pack({.storages = {Alive(1, {{0, 4}}), Alive(2, {{4, 9}})}, .storage_of = {}});
  EXPECT_THAT(packed.load, ElementsAre(1, 2));
}

TEST(PackedProblemTest, AGapLeavesOutSections) {
  const PackedProblem packed =
      Pack({.storages = {Alive(1, {{0, 2}, {6, 8}}), Alive(2, {{2, 6}}), Alive(4, {{0, 8}})},
            .storage_of = {}});
  EXPECT_THAT(packed.load, ElementsAre(5, 6, 5));
  EXPECT_THAT(packed.ranges_of(0), ElementsAre(SectionRange{0, 1}, SectionRange{2, 3}));
}

bool ShareASection(const PackedProblem& packed, uint32_t a, uint32_t b) {
  for (const SectionRange& in_a : packed.ranges_of(a)) {
    for (const SectionRange& in_b : packed.ranges_of(b)) {
      if (in_a.begin < in_b.end && in_b.begin < in_a.end) return true;
    }
  }
  return false;
}

TEST(PackedProblemTest, WhatIsAliveTogetherSharesASection) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const PlanProblem problem = *MakePlanProblem(RandomInput(random, {.buffers = 12, .steps = 20}));
    const PackedProblem packed = Pack(problem);
    for (uint32_t a = 0; a < packed.storages(); ++a) {
      for (uint32_t b = 0; b < a; ++b) {
        EXPECT_EQ(ShareASection(packed, a, b),
                  AliveTogether(problem.storages[a], problem.storages[b]));
      }
    }
  }
}

}  // namespace
}  // namespace tenure
