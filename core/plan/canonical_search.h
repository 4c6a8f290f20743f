#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/packed_problem.h"
#include "core/plan/search_budget.h"

namespace tenure {

// Searches any problem for lower plans, until none is left: for those that no strip stands for,
// with gaps, fixed offsets or sizes that alignment adds to. A node reads all of what is not placed.
//
// Among the lowest plans there is one in which no storage could lie lower while the others stay.
// In order of (offset, index) each of its storages lies at the lowest place that is above all that
// was placed before it in its sections, so that these orders are all that has to be searched; and
// no storage lies so high that an unplaced one would fit below it (Moffitt, MiniMalloc, 2023).
//
// Thread-compatible.
class CanonicalSearch {
 public:
  enum class Outcome {
    kFound,
    kNone,     // there is no lower plan
    kStopped,  // by the limit or the budget
  };

  // REQUIRES: `problem` outlives it.
  explicit CanonicalSearch(const PackedProblem& problem);

  // Searches for a plan that is lower than `height`.
  Outcome Search(uint64_t height, uint64_t nodes_limit, SearchBudget& budget);

  // By storage, once a plan was found.
  const std::vector<uint64_t>& offsets() const { return offsets_; }

 private:
  // Bytes that a fixed storage takes in a section.
  struct Obstacle {
    uint64_t begin;
    uint64_t end;
  };
  struct Candidate {
    uint64_t offset;
    uint32_t storage;
    friend auto operator<=>(const Candidate&, const Candidate&) = default;
  };
  struct Saved {
    uint32_t section;
    uint64_t floor;
  };

  bool Solve(const Candidate& last);
  // What may be placed next, or nothing if the plan cannot become low enough.
  std::vector<Candidate> Candidates(const Candidate& last) const;
  // The lowest place above the floors that is beside what is fixed.
  uint64_t LowestPlace(uint32_t storage) const;
  bool SectionsHaveRoom(uint64_t lowest) const;
  void Place(const Candidate& candidate);
  void Undo(uint32_t storage, size_t saved);

  const PackedProblem& problem_;
  std::vector<std::vector<Obstacle>> obstacles_;  // by section, by begin
  std::vector<uint32_t> unplaced_;                // not fixed, the largest first
  std::vector<uint64_t> floor_;                   // by section
  std::vector<uint64_t> load_;                    // by section, of what is not placed
  std::vector<bool> placed_;                      // by storage
  std::vector<Saved> saved_;

  uint64_t height_ = 0;
  uint64_t left_ = 0;  // how many storages have to be placed
  uint64_t nodes_left_ = 0;
  SearchBudget* budget_ = nullptr;
  bool stopped_ = false;
  std::vector<uint64_t> offsets_;
};

}  // namespace tenure
