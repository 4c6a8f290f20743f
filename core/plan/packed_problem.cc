#include "core/plan/packed_problem.h"

#include <algorithm>

namespace tenure {
namespace {

// A begin or an end of a lifespan. What ends at a step ends before anything begins there.
struct Turn {
  uint64_t when;   // twice the step, and one if it is a begin
  uint32_t range;  // an index into ranges
};

}  // namespace

PackedProblem Pack(const PlanProblem& problem) {
  PackedProblem packed;
  const size_t count = problem.storages.size();
  packed.size.reserve(count);
  packed.alignment.reserve(count);
  packed.fixed_offset.reserve(count);
  packed.first_range.reserve(count + 1);
  std::vector<uint64_t> size_of_range;
  std::vector<Turn> turns;
  size_of_range.reserve(count);
  turns.reserve(2 * count);
  for (const Storage& storage : problem.storages) {
    packed.size.push_back(storage.size.count());
    packed.alignment.push_back(storage.alignment.count());
    packed.fixed_offset.push_back(storage.fixed_offset.has_value() ? storage.fixed_offset->count()
                                                                   : PackedProblem::kNotFixed);
    packed.first_range.push_back(static_cast<uint32_t>(size_of_range.size()));
    for (const Lifespan& span : storage.alive) {
      const auto range = static_cast<uint32_t>(size_of_range.size());
      turns.push_back({2 * static_cast<uint64_t>(span.begin) + 1, range});
      turns.push_back({2 * static_cast<uint64_t>(span.end), range});
      size_of_range.push_back(storage.size.count());
    }
  }
  packed.first_range.push_back(static_cast<uint32_t>(size_of_range.size()));
  std::ranges::sort(turns, {}, &Turn::when);

  // A section is where an end follows a begin.
  packed.ranges.resize(size_of_range.size());
  uint64_t alive = 0;
  bool begun = false;
  for (const Turn& turn : turns) {
    SectionRange& range = packed.ranges[turn.range];
    if ((turn.when & 1) != 0) {
      range.begin = packed.sections;
      alive += size_of_range[turn.range];
      begun = true;
      continue;
    }
    if (begun) {
      ++packed.sections;
      packed.load.push_back(alive);
      begun = false;
    }
    range.end = packed.sections;
    alive -= size_of_range[turn.range];
  }
  return packed;
}

uint64_t HeightOf(const PackedProblem& problem, const std::vector<uint64_t>& offsets) {
  uint64_t height = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    height = std::max(height, offsets[i] + problem.size[i]);
  }
  return height;
}

}  // namespace tenure
