#include "core/plan/strip_problem.h"

#include <algorithm>
#include <numeric>

namespace tenure {

StripProblem MakeStrip(const PackedProblem& problem) {
  StripProblem strip{.sections = problem.sections, .exact = true};
  uint64_t alignment = 1;
  for (const uint64_t each : problem.alignment) alignment = std::max(alignment, each);
  strip.range.reserve(problem.storages());
  strip.size.reserve(problem.storages());
  std::vector<int64_t> change(problem.sections + 1);
  uint64_t step = 0;
  for (uint32_t i = 0; i < problem.storages(); ++i) {
    const SectionRange hull = problem.hull(i);
    const uint64_t size = (problem.size[i] + alignment - 1) & ~(alignment - 1);
    if (size != problem.size[i]) strip.exact = false;
    // A gap in which nothing else is alive is none.
    uint32_t alive = 0;
    for (const SectionRange& range : problem.ranges_of(i)) alive += range.end - range.begin;
    if (alive != hull.end - hull.begin) strip.exact = false;
    strip.range.push_back(hull);
    strip.size.push_back(static_cast<int64_t>(size));
    change[hull.begin] += static_cast<int64_t>(size);
    change[hull.end] -= static_cast<int64_t>(size);
    step = std::gcd(step, size);
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  strip.bound = std::ranges::max(change);
  strip.step = static_cast<int64_t>(step);
  return strip;
}

}  // namespace tenure
