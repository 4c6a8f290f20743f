#include "core/plan/free_space.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace tenure {
namespace {

// Byte by byte.
class Bitmap {
 public:
  Bitmap(uint32_t sections, uint64_t bytes) : taken_(sections, std::vector<bool>(bytes)) {}

  uint64_t Find(const std::vector<SectionRange>& ranges, uint64_t size, uint64_t alignment) const {
    for (uint64_t at = 0;; at += alignment) {
      if (IsFree(ranges, at, at + size)) return at;
    }
  }

  void Take(const std::vector<SectionRange>& ranges, uint64_t begin, uint64_t end) {
    for (const SectionRange& range : ranges) {
      for (uint32_t s = range.begin; s < range.end; ++s) {
        for (uint64_t byte = begin; byte < end; ++byte) taken_[s][byte] = true;
      }
    }
  }

 private:
  bool IsFree(const std::vector<SectionRange>& ranges, uint64_t begin, uint64_t end) const {
    for (const SectionRange& range : ranges) {
      for (uint32_t s = range.begin; s < range.end; ++s) {
        for (uint64_t byte = begin; byte < end; ++byte) {
          if (taken_[s][byte]) return false;
        }
      }
    }
    return true;
  }

  std::vector<std::vector<bool>> taken_;
};

TEST(FreeSpaceTest, TheLowestPlaceIsFound) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    const auto sections = static_cast<uint32_t>(1 + random() % 40);
    FreeSpace space(sections);
    Bitmap bitmap(sections, 1000);
    for (int i = 0; i < 40; ++i) {
      std::vector<SectionRange> ranges;
      for (uint32_t at = 0; at < sections && ranges.size() < 2;) {
        const auto begin = static_cast<uint32_t>(at + random() % (sections - at));
        const auto end = static_cast<uint32_t>(begin + 1 + random() % (sections - begin));
        ranges.push_back({begin, end});
        at = end + 1;
      }
      const uint64_t size = 1 + random() % 12;
      const uint64_t alignment = uint64_t{1} << random() % 4;
      const uint64_t found = space.Find(ranges, size, alignment);
      ASSERT_EQ(found, bitmap.Find(ranges, size, alignment));
      space.Take(ranges, found, found + size);
      bitmap.Take(ranges, found, found + size);
    }
  }
}

TEST(FreeSpaceTest, EverythingIsFreeAfterClear) {
  FreeSpace space(3);
  const std::vector<SectionRange> all = {{0, 3}};
  space.Take(all, 0, 10);
  EXPECT_EQ(space.Find(all, 1, 1), 10U);
  space.Clear();
  EXPECT_EQ(space.Find(all, 1, 1), 0U);
}

}  // namespace
}  // namespace tenure
