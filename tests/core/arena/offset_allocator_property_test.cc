// Random operations on an OffsetAllocator and on a model that is nothing but the list of what is
// managed and the list of what is live, compared after each.

#include <algorithm>
#include <bit>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <vector>

#include "core/arena/offset_allocator.h"

namespace tenure {
namespace {

using Block = OffsetAllocator::Block;

constexpr Bytes kGranule = OffsetAllocator::kGranule;

// What is managed and what is live, each by where it begins.
class NaiveModel {
 public:
  std::map<Bytes, Bytes> managed;  // to the end; those that touch are one
  std::map<Bytes, Bytes> live;     // to the end

  void Add(Range range) {
    Bytes begin = range.begin();
    Bytes end = range.end();
    if (const auto after = managed.find(end); after != managed.end()) {
      end = after->second;
      managed.erase(after);
    }
    if (const auto before = managed.lower_bound(begin);
        before != managed.begin() && std::prev(before)->second == begin) {
      begin = std::prev(before)->first;
    }
    managed[begin] = end;
  }

  void Remove(Range range) {
    const auto around = std::prev(managed.upper_bound(range.begin()));
    const Bytes end = around->second;
    around->second = range.begin();
    if (around->first == range.begin()) managed.erase(around);
    if (range.end() < end) managed[range.end()] = end;
  }

  std::vector<Range> Holes() const {
    std::vector<Range> holes;
    auto block = live.begin();
    for (const auto& [begin, end] : managed) {
      Bytes at = begin;
      for (; block != live.end() && block->first < end; ++block) {
        if (at < block->first) holes.emplace_back(at, block->first);
        at = block->second;
      }
      if (at < end) holes.emplace_back(at, end);
    }
    return holes;
  }
};

Bytes Sum(const std::map<Bytes, Bytes>& ranges) {
  Bytes sum;
  for (const auto& [begin, end] : ranges) sum += end - begin;
  return sum;
}

class RandomWalk {
 public:
  struct Options {
    uint32_t seed;
    size_t most_blocks;
    Bytes slot;  // ranges are added and removed within slots of this size, some of them whole
    int slots;
    int check_every;  // steps
  };

  explicit RandomWalk(const Options& options) : options_(options), random_(options.seed) {}

  void Do(int steps) {
    for (int step = 1; step <= steps && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << options_.seed << " step " << step);
      Step();
      if (step % options_.check_every == 0) Compare();
    }
    while (!blocks_.empty()) FreeOne();
    Compare();
  }

  int refused() const { return refused_; }

 private:
  uint64_t Below(uint64_t limit) {
    return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_);
  }
  // One byte to `most`, as often of each magnitude.
  Bytes AnySize(Bytes most) {
    const uint64_t limit = uint64_t{1}
                           << Below(static_cast<uint64_t>(std::bit_width(most.count())));
    return Bytes(std::min(limit + Below(limit), most.count()));
  }
  // The whole, or a part of it that begins and ends at granules.
  Range PartOf(Range whole) {
    if (Below(2) == 0) return whole;
    const Bytes begin = kGranule * Below(whole.size() / kGranule);
    const Bytes left = whole.size() - begin;
    const Bytes size = std::min(AlignUp(AnySize(left), kGranule), left);
    return Range(whole.begin() + begin, whole.begin() + begin + size);
  }

  void Step() {
    const uint64_t choice = Below(100);
    if (choice < 3) {
      AddOne();
    } else if (choice < 5) {
      RemoveOne();
    } else if (choice < 10) {
      SplitOne();
    } else if (choice < 58 && blocks_.size() < options_.most_blocks) {
      AllocateOne();
    } else if (!blocks_.empty()) {
      FreeOne();
    }
  }

  void AddOne() {
    const Bytes begin = options_.slot * Below(static_cast<uint64_t>(options_.slots));
    const Range range = PartOf(Range(begin, begin + options_.slot));
    for (const auto& [from, to] : model_.managed) {
      if (from < range.end() && range.begin() < to) return;
    }
    allocator_.Add(range);
    model_.Add(range);
  }

  void RemoveOne() {
    const std::vector<Range> holes = model_.Holes();
    if (holes.empty()) return;
    const Range range = PartOf(holes[Below(holes.size())]);
    allocator_.Remove(range);
    model_.Remove(range);
  }

  void AllocateOne() {
    const bool exactly_the_largest = Below(20) == 0;
    const Bytes largest = allocator_.usage().largest_free;
    const Bytes size =
        exactly_the_largest && !largest.zero() ? largest : AnySize(options_.slot * 2);
    const Bytes alignment =
        exactly_the_largest || Below(2) == 0 ? kGranule : Bytes(uint64_t{1} << Below(24));
    const std::optional<Block> block = allocator_.Allocate(size, alignment);
    if (!block.has_value()) {
      ++refused_;
      for (const Range hole : model_.Holes()) {
        const Bytes begin = AlignUp(hole.begin(), std::max(alignment, kGranule));
        EXPECT_LT(SaturatingSub(hole.end(), begin), size)
            << "refused " << size.count() << " at " << alignment.count();
      }
      return;
    }
    EXPECT_EQ(block->offset % alignment, Bytes(0));
    EXPECT_EQ(block->size, AlignUp(size, kGranule));
    const Bytes end = block->offset + block->size;
    const auto span = model_.managed.upper_bound(block->offset);
    ASSERT_NE(span, model_.managed.begin());
    EXPECT_LE(end, std::prev(span)->second);
    const auto after = model_.live.lower_bound(block->offset);
    EXPECT_TRUE(after == model_.live.end() || end <= after->first);
    EXPECT_TRUE(after == model_.live.begin() || std::prev(after)->second <= block->offset);
    model_.live[block->offset] = end;
    blocks_.push_back(*block);
  }

  void FreeOne() {
    Block& block = blocks_[Below(blocks_.size())];
    allocator_.Free(block);
    model_.live.erase(block.offset);
    block = blocks_.back();
    blocks_.pop_back();
  }

  void SplitOne() {
    if (blocks_.empty() || blocks_.size() >= options_.most_blocks) return;
    Block& block = blocks_[Below(blocks_.size())];
    if (block.size == kGranule) return;
    const Block whole = block;
    const Bytes first = kGranule * (1 + Below(block.size / kGranule - 1));
    const Block second = allocator_.Split(block, first);
    EXPECT_EQ(block, Block({.offset = whole.offset, .size = first, .node = whole.node}));
    EXPECT_EQ(second.offset, whole.offset + first);
    EXPECT_EQ(second.size, whole.size - first);
    model_.live[block.offset] = second.offset;
    model_.live[second.offset] = second.offset + second.size;
    blocks_.push_back(second);
  }

  void Compare() {
    allocator_.Validate();
    std::vector<Range> holes;
    allocator_.ForEachFree(Bytes(0), [&holes](Range hole) { holes.push_back(hole); });
    std::sort(holes.begin(), holes.end(), [](Range a, Range b) { return a.begin() < b.begin(); });
    EXPECT_EQ(holes, model_.Holes());

    OffsetAllocator::Usage expected;
    expected.used = Sum(model_.live);
    expected.free = Sum(model_.managed) - expected.used;
    for (const Range hole : model_.Holes()) {
      expected.largest_free = std::max(expected.largest_free, hole.size());
    }
    EXPECT_EQ(allocator_.usage(), expected);
    if (!expected.largest_free.zero()) {
      const std::optional<Block> block = allocator_.Allocate(expected.largest_free);
      ASSERT_TRUE(block.has_value());
      allocator_.Free(*block);
    }
  }

  const Options options_;
  std::mt19937_64 random_;
  OffsetAllocator allocator_;
  NaiveModel model_;
  std::vector<Block> blocks_;
  int refused_ = 0;
};

TEST(OffsetAllocatorPropertyTest, AFewBlocksInFewSmallRanges) {
  int refused = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    RandomWalk walk(
        {.seed = seed, .most_blocks = 12, .slot = KiB(16), .slots = 6, .check_every = 1});
    walk.Do(1'500);
    refused += walk.refused();
  }
  EXPECT_GT(refused, 500);
}

TEST(OffsetAllocatorPropertyTest, SomeBlocksOfAllSizes) {
  int refused = 0;
  for (uint32_t seed = 101; seed <= 110; ++seed) {
    RandomWalk walk(
        {.seed = seed, .most_blocks = 100, .slot = MiB(256), .slots = 8, .check_every = 1});
    walk.Do(3'000);
    refused += walk.refused();
  }
  EXPECT_GT(refused, 500);
}

TEST(OffsetAllocatorPropertyTest, ManyBlocksOfAllSizes) {
  for (uint32_t seed = 201; seed <= 203; ++seed) {
    RandomWalk walk(
        {.seed = seed, .most_blocks = 4'000, .slot = GiB(1), .slots = 64, .check_every = 1'000});
    walk.Do(50'000);
  }
}

TEST(OffsetAllocatorPropertyTest, ManyBlocksBetweenHolesOfNearlyOneSize) {
  for (uint32_t seed = 301; seed <= 303; ++seed) {
    RandomWalk walk({.seed = seed,
                     .most_blocks = 4'000,
                     .slot = KiB(33),
                     .slots = 2'000,
                     .check_every = 1'000});
    walk.Do(50'000);
  }
}

}  // namespace
}  // namespace tenure
