#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "core/plan/make_plan.h"
#include "core/plan/packed_problem.h"

namespace tenure {
namespace {

// Offsets are multiples of the least alignment, so that every size counts as rounded up to it but
// that of the topmost storage. The sum of that in the worst section.
uint64_t LargestLoad(const PackedProblem& problem, uint64_t alignment) {
  struct Turn {
    uint32_t section;
    bool begins;
    uint32_t storage;
  };
  std::vector<Turn> turns;
  turns.reserve(2 * problem.ranges.size());
  for (uint32_t i = 0; i < problem.storages(); ++i) {
    for (const SectionRange& range : problem.ranges_of(i)) {
      turns.push_back({range.begin, true, i});
      turns.push_back({range.end, false, i});
    }
  }
  std::ranges::sort(turns, {},
                    [](const Turn& turn) { return std::pair(turn.section, turn.begins); });
  const auto padding = [&](uint32_t i) {
    return (alignment - problem.size[i] % alignment) % alignment;
  };
  std::priority_queue<std::pair<uint64_t, uint32_t>> paddings;  // with the section where it ends
  uint64_t rounded = 0;
  uint64_t largest = 0;
  for (const Turn& turn : turns) {
    const uint64_t size = problem.size[turn.storage] + padding(turn.storage);
    if (!turn.begins) {
      rounded -= size;
      continue;
    }
    rounded += size;
    for (const SectionRange& range : problem.ranges_of(turn.storage)) {
      if (range.begin == turn.section) paddings.emplace(padding(turn.storage), range.end);
    }
    while (paddings.top().second <= turn.section) paddings.pop();
    largest = std::max(largest, rounded - paddings.top().first);
  }
  return largest;
}

}  // namespace

uint64_t LowerBoundOf(const PackedProblem& problem) {
  if (problem.storages() == 0) return 0;
  uint64_t bound = std::ranges::max(problem.load);
  uint64_t alignment = problem.alignment.front();
  bool padded = false;
  for (uint32_t i = 0; i < problem.storages(); ++i) {
    alignment = std::min(alignment, problem.alignment[i]);
    if (problem.fixed_offset[i] == PackedProblem::kNotFixed) continue;
    bound = std::max(bound, problem.fixed_offset[i] + problem.size[i]);
  }
  for (const uint64_t size : problem.size) padded = padded || size % alignment != 0;
  return padded ? std::max(bound, LargestLoad(problem, alignment)) : bound;
}

Bytes LowerBound(const PlanProblem& problem) { return Bytes(LowerBoundOf(Pack(problem))); }

}  // namespace tenure
