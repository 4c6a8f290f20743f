#include "core/plan/list_schedule.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tenure {
namespace {

// How many bytes are alive at which step.
class Profile {
 public:
  void Add(const Lifespan& span, Bytes size) {
    const auto end = Split(span.end);
    for (auto level = Split(span.begin); level != end; ++level) level->second += size;
  }

  // The end of the first steps of `span` at which more than `most` is alive; nullopt if there are
  // none.
  std::optional<Step> EndOfExcess(const Lifespan& span, Bytes most) const {
    for (auto level = std::prev(levels_.upper_bound(span.begin));
         level != levels_.end() && level->first < span.end; ++level) {
      if (level->second <= most) continue;
      const auto next = std::next(level);
      return next == levels_.end() ? kNeverEnds : next->first;
    }
    return std::nullopt;
  }

 private:
  using Levels = std::map<Step, Bytes>;  // each holds until the next one

  Levels::iterator Split(Step step) {
    const auto level = std::prev(levels_.upper_bound(step));
    return levels_.try_emplace(step, level->second).first;
  }

  Levels levels_ = {{0, Bytes(0)}};
};

}  // namespace

std::optional<std::vector<Step>> ListSchedule(const PlanProblem& problem,
                                              const std::vector<bool>& stays, Bytes capacity) {
  std::vector<uint32_t> order(problem.storages.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {},
                           [&](uint32_t i) { return problem.storages[i].alive.front().begin; });
  Profile profile;
  std::vector<Step> delays(order.size());
  for (const uint32_t i : order) {
    const Storage& storage = problem.storages[i];
    if (storage.size > capacity) return std::nullopt;
    std::vector<Lifespan> alive = storage.alive;
    if (stays[i]) alive.back().end = kNeverEnds;
    Step& delay = delays[i];
    const auto later = [&](const Lifespan& span) {
      const Step end = span.end == kNeverEnds ? kNeverEnds : span.end + delay;
      return Lifespan{span.begin + delay, end};
    };
    for (size_t piece = 0; piece < alive.size();) {
      const Lifespan span = later(alive[piece]);
      const std::optional<Step> free_at = profile.EndOfExcess(span, capacity - storage.size);
      if (!free_at.has_value()) {
        ++piece;
        continue;
      }
      if (*free_at >= kLastStep) return std::nullopt;
      delay += *free_at - span.begin;
      piece = 0;
    }
    for (const Lifespan& span : alive) profile.Add(later(span), storage.size);
  }
  return delays;
}

}  // namespace tenure
