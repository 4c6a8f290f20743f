#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/plan/plan_input.h"

namespace tenure {

// The half-open range of sections [begin, end), never empty.
struct SectionRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  friend bool operator==(const SectionRange&, const SectionRange&) = default;
};

// A PlanProblem as it is searched. Its steps are gone: a section stands for steps at which one
// largest set of storages is alive, so that two are alive together if and only if they have a
// section in common. Sections come in the order of the steps; there are fewer than lifespans.
//
// Sums of sizes stay below 2^62, see MakePlanProblem, and with fixed offsets and what alignment
// adds below 2^64.
struct PackedProblem {
  static constexpr uint64_t kNotFixed = std::numeric_limits<uint64_t>::max();

  uint32_t sections = 0;
  // By storage.
  std::vector<uint64_t> size{};
  std::vector<uint64_t> alignment{};
  std::vector<uint64_t> fixed_offset{};
  // The sections of storage i, in order and apart: ranges[first_range[i]] to, without it,
  // ranges[first_range[i + 1]].
  std::vector<SectionRange> ranges{};
  std::vector<uint32_t> first_range{};
  // By section: the sum of the sizes.
  std::vector<uint64_t> load{};

  uint32_t storages() const { return static_cast<uint32_t>(size.size()); }
  std::span<const SectionRange> ranges_of(uint32_t storage) const {
    return std::span(ranges).subspan(first_range[storage],
                                     first_range[storage + 1] - first_range[storage]);
  }
  // From its first section to its last one.
  SectionRange hull(uint32_t storage) const {
    return {ranges[first_range[storage]].begin, ranges[first_range[storage + 1] - 1].end};
  }
};

// O(n log n).
PackedProblem Pack(const PlanProblem& problem);

// What LowerBound says of it.
uint64_t LowerBoundOf(const PackedProblem& problem);

// The largest end of the storages at `offsets`.
uint64_t HeightOf(const PackedProblem& problem, const std::vector<uint64_t>& offsets);

}  // namespace tenure
