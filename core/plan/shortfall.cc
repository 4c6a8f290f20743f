#include "core/plan/shortfall.h"

#include <algorithm>
#include <utility>

namespace tenure {

std::optional<Shortfall> FindShortfall(const PlanProblem& problem, Bytes capacity) {
  struct Change {
    Step step;
    bool begins;  // what ends at a step ends before anything begins there
    Bytes size;
    auto operator<=>(const Change&) const = default;
  };
  std::vector<Change> changes;
  changes.reserve(2 * problem.storages.size());
  for (const Storage& storage : problem.storages) {
    for (const Lifespan& span : storage.alive) {
      changes.push_back({span.begin, true, storage.size});
      changes.push_back({span.end, false, storage.size});
    }
  }
  std::ranges::sort(changes);
  Shortfall worst{.needed = capacity};
  Bytes alive;
  for (const Change& change : changes) {
    if (!change.begins) {
      alive -= change.size;
    } else if (alive += change.size; alive > worst.needed) {
      worst.step = change.step;
      worst.needed = alive;
    }
  }
  if (worst.needed == capacity) return std::nullopt;
  for (uint32_t i = 0; i < problem.storages.size(); ++i) {
    const bool is_alive = std::ranges::any_of(problem.storages[i].alive, [&](const Lifespan& span) {
      return span.begin <= worst.step && worst.step < span.end;
    });
    if (is_alive) worst.storages.push_back(i);
  }
  return worst;
}

}  // namespace tenure
