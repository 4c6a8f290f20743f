#include "core/plan/order_search.h"

#include <algorithm>
#include <utility>

namespace tenure {

OrderSearch::OrderSearch(const PackedProblem& problem, uint64_t goal, std::vector<uint32_t> order)
    : problem_(problem), goal_(goal), first_fit_(problem), kept_(std::move(order)) {}

uint64_t OrderSearch::Random() {  // xorshift
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

void OrderSearch::MoveOffenders(std::vector<uint32_t>& order) {
  std::vector<double> priority(problem_.storages());
  for (size_t i = 0; i < order.size(); ++i) priority[order[i]] = static_cast<double>(i);
  for (const uint32_t storage : offenders_) {
    const double share = static_cast<double>(Random() % 1024) / 1024;
    priority[storage] = priority[storage] * share - 0.5;
  }
  std::ranges::stable_sort(order, {}, [&](uint32_t storage) { return priority[storage]; });
}

bool OrderSearch::Step(SearchBudget& budget) {
  std::vector<uint32_t> order = kept_;
  MoveOffenders(order);
  if (!first_fit_.Place(order, budget)) return false;
  const uint64_t height = HeightOf(problem_, offsets());
  if (height > height_) return false;
  height_ = height;
  kept_ = std::move(order);
  offenders_.clear();
  for (uint32_t i = 0; i < problem_.storages(); ++i) {
    if (offsets()[i] + problem_.size[i] > goal_) offenders_.push_back(i);
  }
  return true;
}

}  // namespace tenure
