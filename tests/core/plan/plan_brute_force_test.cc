#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "core/plan/make_plan.h"
#include "core/plan/validate_plan.h"
#include "tests/core/plan/random_input.h"

namespace tenure {
namespace {

// What shares an offset, step by step.
struct Block {
  uint64_t size = 0;
  uint64_t alignment = 1;
  std::optional<uint64_t> fixed{};
  std::set<Step> steps{};
};

// `end` is beyond all steps.
std::vector<Block> BlocksOf(const PlanInput& input, Step end) {
  Step last_end = 0;
  for (const PlanBuffer& buffer : input) {
    last_end = std::max(last_end, buffer.end.value_or(buffer.first_use + 1));
  }
  const auto end_of = [&](const PlanBuffer& buffer) {
    if (!buffer.end.has_value()) return end;
    return buffer.output ? last_end : *buffer.end;
  };
  std::map<uint64_t, std::vector<const PlanBuffer*>> groups;
  for (size_t i = 0; i < input.size(); ++i) {
    const auto group = input[i].alias_group;
    groups[group.has_value() ? *group : 1'000'000 + i].push_back(&input[i]);
  }
  std::vector<Block> blocks;
  for (const auto& [group, views] : groups) {
    Block block;
    Step begin = end;
    Step stop = 0;
    for (const PlanBuffer* view : views) {
      block.size = std::max(block.size, view->size.count());
      block.alignment = std::max(block.alignment, view->alignment.count());
      if (view->fixed_offset.has_value()) block.fixed = view->fixed_offset->count();
      begin = std::min(begin, view->first_use);
      stop = std::max(stop, end_of(*view));
    }
    for (Step step = begin; step < stop; ++step) block.steps.insert(step);
    for (const PlanBuffer* view : views) {
      for (const Lifespan& gap : view->gaps) {
        const bool used = std::ranges::any_of(views, [&](const PlanBuffer* other) {
          return other != view && other->first_use < gap.end && end_of(*other) > gap.begin;
        });
        for (Step step = gap.begin; !used && step < gap.end; ++step) block.steps.erase(step);
      }
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

// Whether the blocks from `next` on can be put beside those before, within `height`, trying all
// places there are.
bool Fits(const std::vector<Block>& blocks, std::vector<uint64_t>& offsets, uint64_t height) {
  const size_t next = offsets.size();
  if (next == blocks.size()) return true;
  const Block& block = blocks[next];
  for (uint64_t at = 0; at + block.size <= height; at += block.alignment) {
    if (block.fixed.value_or(at) != at) continue;
    bool free = true;
    for (size_t i = 0; i < next && free; ++i) {
      if (offsets[i] >= at + block.size || at >= offsets[i] + blocks[i].size) continue;
      free = std::ranges::none_of(block.steps,
                                  [&](Step step) { return blocks[i].steps.contains(step); });
    }
    if (!free) continue;
    offsets.push_back(at);
    if (Fits(blocks, offsets, height)) return true;
    offsets.pop_back();
  }
  return false;
}

uint64_t LeastHeight(const PlanInput& input) {
  std::vector<Block> blocks = BlocksOf(input, 40);
  std::ranges::sort(blocks, std::greater{}, &Block::size);
  for (uint64_t height = 0;; ++height) {
    std::vector<uint64_t> offsets;
    if (Fits(blocks, offsets, height)) return height;
  }
}

void ExpectLeast(const PlanInput& input) {
  const PlanProblem problem = *MakePlanProblem(input);
  const SteadyClock clock;
  const Plan plan = MakePlan(problem, {.budget = kForever, .nodes = 100'000}, clock);
  std::vector<Bytes> offsets;
  for (const uint32_t storage : problem.storage_of) offsets.push_back(plan.offsets[storage]);
  EXPECT_TRUE(ValidatePlan(input, offsets, plan.height).ok())
      << ValidatePlan(input, offsets, plan.height);
  const uint64_t least = LeastHeight(input);
  EXPECT_TRUE(plan.proven);
  EXPECT_EQ(plan.height.count(), least);
  EXPECT_LE(LowerBound(problem).count(), least);
  EXPECT_EQ(plan.lower_bound, LowerBound(problem));
}

TEST(PlanBruteForceTest, NoPlanOfAnythingIsLower) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(i);
    ExpectLeast(RandomInput(random, {}));
  }
}

TEST(PlanBruteForceTest, NoPlanOfManyShortLifespansIsLower) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 1000 && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(i);
    ExpectLeast(RandomInput(random, {.buffers = 9, .steps = 6, .size = 5}));
  }
}

// Rectangles that fill a square, so that they fit in one way, perhaps.
PlanInput CutSquare(std::mt19937_64& random, uint64_t side, int cuts) {
  struct Rectangle {
    uint64_t left, right, low, high;
  };
  std::vector<Rectangle> pieces = {{0, side, 0, side}};
  for (int i = 0; i < cuts; ++i) {
    Rectangle& piece = pieces[random() % pieces.size()];
    Rectangle rest = piece;
    if (random() % 2 == 0 && piece.right - piece.left > 1) {
      piece.right = rest.left = piece.left + 1 + random() % (piece.right - piece.left - 1);
    } else if (piece.high - piece.low > 1) {
      piece.high = rest.low = piece.low + 1 + random() % (piece.high - piece.low - 1);
    } else {
      continue;
    }
    pieces.push_back(rest);
  }
  PlanInput input;
  for (const Rectangle& piece : pieces) {
    input.push_back({.id = std::to_string(input.size()),
                     .size = Bytes(piece.high - piece.low),
                     .first_use = static_cast<Step>(piece.left),
                     .end = static_cast<Step>(piece.right)});
  }
  std::ranges::shuffle(input, random);
  return input;
}

TEST(PlanBruteForceTest, ASquareIsPutTogetherAgain) {
  std::mt19937_64 random(3);
  const SteadyClock clock;
  for (int i = 0; i < 300; ++i) {
    const PlanProblem problem = *MakePlanProblem(CutSquare(random, 40, 5 + i / 10));
    const Plan plan = MakePlan(problem, {.budget = kForever, .nodes = 300'000}, clock);
    EXPECT_TRUE(plan.proven) << i;
    EXPECT_EQ(plan.height, Bytes(40)) << i;
  }
}

}  // namespace
}  // namespace tenure
