#include "core/plan/make_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tenure {
namespace {

// The largest storages first, each at the lowest offset that is free.
std::vector<Bytes> GreedyBySize(const std::vector<Storage>& storages) {
  std::vector<uint32_t> order(storages.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) {
    const bool fixed = storages[a].fixed_offset.has_value();
    if (fixed != storages[b].fixed_offset.has_value()) return fixed;
    return storages[a].size > storages[b].size;
  });
  std::vector<Bytes> offsets(storages.size());
  std::vector<uint32_t> placed;
  for (const uint32_t which : order) {
    const Storage& storage = storages[which];
    Bytes offset = storage.fixed_offset.value_or(Bytes(0));
    for (const uint32_t other : placed) {  // by offset
      if (storage.fixed_offset.has_value()) break;
      if (!AliveTogether(storage, storages[other])) continue;
      if (offset + storage.size <= offsets[other]) break;
      offset = std::max(offset, AlignUp(offsets[other] + storages[other].size, storage.alignment));
    }
    offsets[which] = offset;
    placed.insert(
        std::ranges::upper_bound(placed, offset, {}, [&](uint32_t i) { return offsets[i]; }),
        which);
  }
  return offsets;
}

}  // namespace

Bytes LowerBound(const PlanProblem& problem) {
  std::map<Step, std::pair<Bytes, Bytes>> changes;  // begun, ended
  Bytes bound;
  for (const Storage& storage : problem.storages) {
    for (const Lifespan& span : storage.alive) {
      changes[span.begin].first += storage.size;
      changes[span.end].second += storage.size;
    }
    if (storage.fixed_offset.has_value()) {
      bound = std::max(bound, *storage.fixed_offset + storage.size);
    }
  }
  Bytes alive;
  for (const auto& [step, change] : changes) {
    alive = alive + change.first - change.second;
    bound = std::max(bound, alive);
  }
  return bound;
}

Plan MakePlan(const PlanProblem& problem, const PlanLimits&, const Clock& clock) {
  const Instant start = clock.Now();
  Plan plan;
  plan.offsets = GreedyBySize(problem.storages);
  plan.lower_bound = LowerBound(problem);
  for (size_t i = 0; i < plan.offsets.size(); ++i) {
    plan.height = std::max(plan.height, plan.offsets[i] + problem.storages[i].size);
  }
  plan.proven = plan.height == plan.lower_bound;
  plan.seconds = clock.Now() - start;
  return plan;
}

}  // namespace tenure
