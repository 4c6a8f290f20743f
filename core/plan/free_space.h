#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/packed_problem.h"

namespace tenure {

// Which bytes are taken in which sections. Finds the lowest free place for a range of sections
// without a look at every storage that is alive there. Thread-compatible.
//
// A tree of which a leaf is a section and a node all the sections below it. A node knows the bytes
// that are taken in all of its sections by what was placed there as a whole (`whole`), and those
// that are taken in any of them (`any`), as intervals that neither overlap nor touch. Few are left
// where plans are good.
class FreeSpace {
 public:
  explicit FreeSpace(uint32_t sections);

  // Everything is free again.
  void Clear();

  // The lowest multiple of `alignment` from which on `size` bytes are free in all of `ranges`.
  // Stays the same until something is taken.
  uint64_t Find(std::span<const SectionRange> ranges, uint64_t size, uint64_t alignment);

  void Take(std::span<const SectionRange> ranges, uint64_t begin, uint64_t end);

  // Intervals looked at since it was made: a measure of the time that went by.
  uint64_t words() const { return words_; }

 private:
  struct Interval {
    uint64_t begin;
    uint64_t end;
  };
  // By begin.
  using Intervals = std::vector<Interval>;
  struct Node {
    Intervals whole;
    Intervals any;
  };

  static void Add(Intervals& intervals, uint64_t begin, uint64_t end);
  uint64_t Fit(const Intervals& intervals, uint64_t from, uint64_t size, uint64_t alignment);
  // Adds what counts for `range` to met_. `node` spans the sections from `first`, `width` of them.
  void Meet(uint32_t node, uint32_t first, uint32_t width, const SectionRange& range);
  void TakeIn(uint32_t node, uint32_t first, uint32_t width, const SectionRange& range,
              const Interval& taken);

  uint32_t width_ = 1;       // of the root: a power of two
  std::vector<Node> nodes_;  // the root is 1, and below i are 2 i and 2 i + 1
  std::vector<const Intervals*> met_;
  uint64_t words_ = 0;
};

}  // namespace tenure
