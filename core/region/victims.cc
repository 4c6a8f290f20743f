#include "core/region/victims.h"

#include <algorithm>
#include <array>

namespace tenure {
namespace {

using Candidates = std::vector<VictimCandidate>;

Bytes SumOf(const Candidates& candidates) {
  Bytes sum;
  for (const VictimCandidate& candidate : candidates) sum += candidate.bytes;
  return sum;
}

bool Older(const VictimCandidate& a, const VictimCandidate& b) {
  if (a.unused_since != b.unused_since) return a.unused_since < b.unused_since;
  return a.region < b.region;
}

bool Larger(const VictimCandidate& a, const VictimCandidate& b) { return a.bytes > b.bytes; }

// Takes the least number of `pool` whose sum is at least `need`, the oldest possible.
// REQUIRES: SumOf(pool) >= need.
Candidates LeastNumber(Candidates pool, Bytes need) {
  std::stable_sort(pool.begin(), pool.end(), Larger);
  size_t number = 0;
  for (Bytes sum; sum < need; ++number) sum += pool[number].bytes;

  Candidates chosen;
  while (chosen.size() < number) {
    const size_t more = number - chosen.size() - 1;
    Bytes largest;
    for (size_t i = 0; i < more; ++i) largest += pool[i].bytes;
    // What the `more` largest of all but pool[i] add up to.
    const auto largest_without = [&](size_t i) {
      return i < more ? largest - pool[i].bytes + pool[more].bytes : largest;
    };
    size_t best = pool.size();
    for (size_t i = 0; i < pool.size(); ++i) {
      if (pool[i].bytes + largest_without(i) < need) continue;
      if (best == pool.size() || Older(pool[i], pool[best])) best = i;
    }
    need = SaturatingSub(need, pool[best].bytes);
    chosen.push_back(pool[best]);
    pool.erase(pool.begin() + static_cast<std::ptrdiff_t>(best));
  }
  return chosen;
}

}  // namespace

std::optional<Candidates> ChooseVictims(const Candidates& candidates, Bytes need) {
  if (SumOf(candidates) < need) return std::nullopt;
  constexpr std::array<VictimCost, 3> kDearestFirst = {VictimCost::kUnload, VictimCost::kRecall,
                                                       VictimCost::kNothing};
  // What the cheaper ones cannot give, the dearer ones must; so the dearest are settled first.
  Candidates chosen;
  for (const VictimCost cost : kDearestFirst) {
    Candidates pool;
    Bytes cheaper;
    for (const VictimCandidate& candidate : candidates) {
      if (candidate.cost == cost) pool.push_back(candidate);
      if (candidate.cost < cost) cheaper += candidate.bytes;
    }
    const Candidates taken = LeastNumber(std::move(pool), SaturatingSub(need, cheaper));
    need = SaturatingSub(need, SumOf(taken));
    chosen.insert(chosen.end(), taken.begin(), taken.end());
  }
  return chosen;
}

}  // namespace tenure
