#include "core/plan/first_fit.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tenure {
namespace {

uint32_t SectionsOf(const PackedProblem& problem, uint32_t storage) {
  uint32_t sections = 0;
  for (const SectionRange& range : problem.ranges_of(storage)) sections += range.end - range.begin;
  return sections;
}

bool IsAliveIn(const PackedProblem& problem, uint32_t storage, uint32_t section) {
  return std::ranges::any_of(problem.ranges_of(storage), [section](const SectionRange& range) {
    return range.begin <= section && section < range.end;
  });
}

}  // namespace

std::vector<uint32_t> OrderStorages(const PackedProblem& problem, FirstFitOrder by) {
  struct Place {
    double first;
    double second;
    uint32_t begin;
    uint32_t storage;
  };
  const auto peak =
      static_cast<uint32_t>(std::ranges::max_element(problem.load) - problem.load.begin());
  std::vector<Place> places;
  places.reserve(problem.storages());
  for (uint32_t i = 0; i < problem.storages(); ++i) {
    const auto size = static_cast<double>(problem.size[i]);
    const double sections = SectionsOf(problem, i);
    Place place{.first = -size, .second = 0, .begin = problem.hull(i).begin, .storage = i};
    switch (by) {
      case FirstFitOrder::kLargest:
        break;
      case FirstFitOrder::kLongest:
        place.first = -sections;
        place.second = -size;
        break;
      case FirstFitOrder::kPeakThenLargest:
        place.first = IsAliveIn(problem, i, peak) ? 0 : 1;
        place.second = -size;
        break;
    }
    places.push_back(place);
  }
  std::ranges::sort(places, [](const Place& a, const Place& b) {
    return std::tie(a.first, a.second, a.begin, a.storage) <
           std::tie(b.first, b.second, b.begin, b.storage);
  });
  std::vector<uint32_t> order;
  order.reserve(places.size());
  for (const Place& place : places) order.push_back(place.storage);
  return order;
}

bool FirstFit::Place(const std::vector<uint32_t>& order, SearchBudget& budget) {
  Begin();
  for (const uint32_t storage : order) {
    if (!budget.Spend(1, PlaceOne(storage))) return false;
  }
  return true;
}

void FirstFit::PlaceAll(const std::vector<uint32_t>& order, SearchBudget& budget) {
  Begin();
  uint64_t words = 0;
  for (const uint32_t storage : order) words += PlaceOne(storage);
  budget.Spend(order.size(), words);
}

void FirstFit::Begin() {
  space_.Clear();
  for (uint32_t i = 0; i < problem_.storages(); ++i) {
    if (problem_.fixed_offset[i] == PackedProblem::kNotFixed) continue;
    offsets_[i] = problem_.fixed_offset[i];
    space_.Take(problem_.ranges_of(i), offsets_[i], offsets_[i] + problem_.size[i]);
  }
}

uint64_t FirstFit::PlaceOne(uint32_t storage) {
  if (problem_.fixed_offset[storage] != PackedProblem::kNotFixed) return 0;
  const uint64_t before = space_.words();
  const auto ranges = problem_.ranges_of(storage);
  const uint64_t size = problem_.size[storage];
  const uint64_t offset = space_.Find(ranges, size, problem_.alignment[storage]);
  space_.Take(ranges, offset, offset + size);
  offsets_[storage] = offset;
  // An interval costs more than a word: it is searched for, and moves others.
  return 8 * (space_.words() - before);
}

}  // namespace tenure
