#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/free_space.h"
#include "core/plan/packed_problem.h"
#include "core/plan/search_budget.h"

namespace tenure {

// What comes first when storages are placed one after another.
enum class FirstFitOrder {
  kLargest,          // by size, and equal ones by their begin
  kLongest,          // by the number of sections, and equal ones by size
  kPeakThenLargest,  // what is alive in the fullest section, then by size
};

// All storages of `problem` in an order.
std::vector<uint32_t> OrderStorages(const PackedProblem& problem, FirstFitOrder by);

// Places storages in a given order, each at the lowest offset that is free; what is fixed lies
// where it has to from the start. Thread-compatible.
class FirstFit {
 public:
  // REQUIRES: `problem` outlives it.
  explicit FirstFit(const PackedProblem& problem)
      : problem_(problem), space_(problem.sections), offsets_(problem.size.size()) {}

  // False if `budget` ended before all of them were placed.
  bool Place(const std::vector<uint32_t>& order, SearchBudget& budget);

  // The same, however long it takes.
  void PlaceAll(const std::vector<uint32_t>& order, SearchBudget& budget);

  // By storage, once all are placed.
  const std::vector<uint64_t>& offsets() const { return offsets_; }

 private:
  void Begin();
  // Gives back what it cost in words.
  uint64_t PlaceOne(uint32_t storage);

  const PackedProblem& problem_;
  FreeSpace space_;
  std::vector<uint64_t> offsets_;
};

}  // namespace tenure
