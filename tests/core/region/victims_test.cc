#include "core/region/victims.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace tenure {
namespace {

// A candidate that has been unused since `age` seconds before the others' zero.
VictimCandidate Candidate(uint64_t id, uint64_t mib, int age,
                          VictimCost cost = VictimCost::kNothing) {
  return {.region = RegionId(id),
          .bytes = MiB(mib),
          .cost = cost,
          .unused_since = Instant(std::chrono::hours(1)) - std::chrono::seconds(age)};
}

std::vector<uint64_t> Chosen(const std::vector<VictimCandidate>& candidates, uint64_t mib) {
  const std::optional<std::vector<VictimCandidate>> victims = ChooseVictims(candidates, MiB(mib));
  std::vector<uint64_t> ids;
  if (!victims.has_value()) return {0};
  for (const VictimCandidate& victim : *victims) ids.push_back(victim.region.value());
  std::sort(ids.begin(), ids.end());
  return ids;
}

using Ids = std::vector<uint64_t>;

TEST(VictimsTest, NothingIsChosenForNothingAndNothingHelpsIfAllDoNot) {
  EXPECT_EQ(Chosen({Candidate(1, 4, 0)}, 0), Ids{});
  EXPECT_EQ(Chosen({Candidate(1, 4, 0)}, 5), Ids{0});
}

TEST(VictimsTest, OfOneThatSufficesTheOldestIsChosen) {
  EXPECT_EQ(Chosen({Candidate(1, 4, 1), Candidate(2, 4, 9), Candidate(3, 4, 5)}, 4), Ids{2});
}

TEST(VictimsTest, TheLeastNumberCountsMoreThanAge) {
  EXPECT_EQ(Chosen({Candidate(1, 4, 9), Candidate(2, 4, 8), Candidate(3, 8, 0)}, 8), Ids{3});
}

TEST(VictimsTest, OfTheLeastNumberTheOldestWithWhichTheLargestOfTheRestSuffice) {
  // Two are needed; 1 is the oldest but only 3 completes it.
  EXPECT_EQ(Chosen({Candidate(1, 2, 9), Candidate(2, 4, 5), Candidate(3, 8, 1)}, 10), (Ids{1, 3}));
}

TEST(VictimsTest, WhatMustBeRecalledComesAfterWhatNobodyHasMapped) {
  EXPECT_EQ(
      Chosen({Candidate(1, 8, 9, VictimCost::kRecall), Candidate(2, 4, 1), Candidate(3, 4, 0)}, 8),
      (Ids{2, 3}));
}

TEST(VictimsTest, AsFewAsPossibleAreRecalledAndNoMoreOfTheRestThanNeeded) {
  EXPECT_EQ(
      Chosen({Candidate(1, 8, 9, VictimCost::kRecall), Candidate(2, 8, 8, VictimCost::kRecall),
              Candidate(3, 2, 1), Candidate(4, 2, 2)},
             10),
      (Ids{1, 4}));
}

TEST(VictimsTest, IdleModelsGoOfflineLast) {
  EXPECT_EQ(
      Chosen({Candidate(1, 8, 9, VictimCost::kUnload), Candidate(2, 8, 0, VictimCost::kRecall)}, 8),
      Ids{2});
}

TEST(VictimsTest, TheNumberIsTheLeastThereIs) {
  std::mt19937 random(11);
  const auto pick = [&](int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random);
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<VictimCandidate> candidates;
    uint64_t all = 0;
    for (uint64_t id = 1; id <= 8; ++id) {
      candidates.push_back(Candidate(id, static_cast<uint64_t>(1 + pick(20)), pick(50)));
      all += candidates.back().bytes / MiB(1);
    }
    const uint64_t need = 1 + static_cast<uint64_t>(pick(static_cast<int>(all)));
    size_t least = 99;
    for (unsigned subset = 0; subset < 256; ++subset) {
      Bytes sum;
      size_t number = 0;
      for (unsigned i = 0; i < 8; ++i) {
        if ((subset >> i & 1U) == 0) continue;
        sum += candidates[i].bytes;
        ++number;
      }
      if (sum >= MiB(need)) least = std::min(least, number);
    }
    const auto victims = ChooseVictims(candidates, MiB(need));
    ASSERT_TRUE(victims.has_value());
    Bytes sum;
    for (const VictimCandidate& victim : *victims) sum += victim.bytes;
    EXPECT_GE(sum, MiB(need));
    EXPECT_EQ(victims->size(), least);
  }
}

}  // namespace
}  // namespace tenure
