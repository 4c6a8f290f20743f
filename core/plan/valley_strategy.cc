#include "core/plan/valley_strategy.h"

#include <algorithm>
#include <tuple>

namespace tenure {
namespace {

// What comes first has the largest rank.
double RankOf(ValleyStrategy::Order order, double width, double size) {
  switch (order) {
    case ValleyStrategy::Order::kWidth:
      return width;
    case ValleyStrategy::Order::kSize:
      return size;
    case ValleyStrategy::Order::kArea:
      return width * size;
    case ValleyStrategy::Order::kWidthArea:
      return width * width * size;
    case ValleyStrategy::Order::kSizeArea:
      return width * size * size;
    case ValleyStrategy::Order::kNarrow:
      return -width;
  }
  return 0;
}

}  // namespace

std::vector<uint32_t> OrderPieces(const StripProblem& problem, ValleyStrategy::Order order) {
  struct Ranked {
    double rank;
    double second;
    uint32_t storage;
  };
  std::vector<Ranked> ranked;
  ranked.reserve(problem.size.size());
  for (uint32_t i = 0; i < problem.size.size(); ++i) {
    const double width = problem.range[i].end - problem.range[i].begin;
    const auto size = static_cast<double>(problem.size[i]);
    const bool by_size = order == ValleyStrategy::Order::kSize;
    ranked.push_back({RankOf(order, width, size), by_size ? width : size, i});
  }
  std::ranges::sort(ranked, [](const Ranked& a, const Ranked& b) {
    return std::tie(b.rank, b.second, a.storage) < std::tie(a.rank, a.second, b.storage);
  });
  std::vector<uint32_t> storages;
  storages.reserve(ranked.size());
  for (const Ranked& each : ranked) storages.push_back(each.storage);
  return storages;
}

}  // namespace tenure
