#include "core/plan/canonical_search.h"

#include <algorithm>
#include <limits>

namespace tenure {

CanonicalSearch::CanonicalSearch(const PackedProblem& problem)
    : problem_(problem),
      obstacles_(problem.sections),
      floor_(problem.sections),
      load_(problem.sections),
      placed_(problem.storages()),
      offsets_(problem.storages()) {
  for (uint32_t i = 0; i < problem.storages(); ++i) {
    const uint64_t offset = problem.fixed_offset[i];
    const bool fixed = offset != PackedProblem::kNotFixed;
    for (const SectionRange& range : problem.ranges_of(i)) {
      for (uint32_t s = range.begin; s < range.end; ++s) {
        if (fixed) {
          obstacles_[s].push_back({offset, offset + problem.size[i]});
        } else {
          load_[s] += problem.size[i];
        }
      }
    }
    if (fixed) {
      offsets_[i] = offset;
    } else {
      unplaced_.push_back(i);
    }
  }
  for (std::vector<Obstacle>& obstacles : obstacles_) {
    std::ranges::sort(obstacles, {}, &Obstacle::begin);
  }
  left_ = unplaced_.size();
}

CanonicalSearch::Outcome CanonicalSearch::Search(uint64_t height, uint64_t nodes_limit,
                                                 SearchBudget& budget) {
  height_ = height;
  nodes_left_ = nodes_limit;
  budget_ = &budget;
  stopped_ = false;
  for (const std::vector<Obstacle>& obstacles : obstacles_) {
    if (!obstacles.empty() && obstacles.back().end >= height) return Outcome::kNone;
  }
  const bool found = Solve({0, 0});
  for (const uint32_t storage : unplaced_) {
    if (placed_[storage]) Undo(storage, 0);
  }
  return found ? Outcome::kFound : stopped_ ? Outcome::kStopped : Outcome::kNone;
}

bool CanonicalSearch::Solve(const Candidate& last) {
  if (left_ == 0) return true;
  if (nodes_left_ == 0 || !budget_->Spend(1, 4 * unplaced_.size() + floor_.size())) {
    stopped_ = true;
    return false;
  }
  --nodes_left_;
  for (const Candidate& candidate : Candidates(last)) {
    const size_t saved = saved_.size();
    Place(candidate);
    if (Solve(candidate)) return true;
    Undo(candidate.storage, saved);
    if (stopped_) return false;
  }
  return false;
}

std::vector<CanonicalSearch::Candidate> CanonicalSearch::Candidates(const Candidate& last) const {
  std::vector<Candidate> candidates;
  uint64_t lowest_end = std::numeric_limits<uint64_t>::max();
  for (const uint32_t storage : unplaced_) {
    if (placed_[storage]) continue;
    const Candidate candidate{LowestPlace(storage), storage};
    const uint64_t end = candidate.offset + problem_.size[storage];
    if (std::max(candidate.offset, last.offset) + problem_.size[storage] >= height_) return {};
    lowest_end = std::min(lowest_end, end);
    if (left_ == unplaced_.size() || candidate > last) candidates.push_back(candidate);
  }
  std::erase_if(candidates, [lowest_end](const Candidate& candidate) {
    return candidate.offset >= lowest_end;
  });
  if (candidates.empty() || !SectionsHaveRoom(std::ranges::min(candidates).offset)) return {};
  std::ranges::stable_sort(candidates, {}, &Candidate::offset);
  return candidates;
}

uint64_t CanonicalSearch::LowestPlace(uint32_t storage) const {
  const uint64_t mask = problem_.alignment[storage] - 1;
  uint64_t place = 0;
  bool blocked = false;
  for (const SectionRange& range : problem_.ranges_of(storage)) {
    for (uint32_t s = range.begin; s < range.end; ++s) {
      place = std::max(place, floor_[s]);
      blocked = blocked || !obstacles_[s].empty();
    }
  }
  place = (place + mask) & ~mask;
  // Goes on until a look at all obstacles finds it beside them.
  while (blocked) {
    blocked = false;
    for (const SectionRange& range : problem_.ranges_of(storage)) {
      for (uint32_t s = range.begin; s < range.end; ++s) {
        for (const Obstacle& obstacle : obstacles_[s]) {
          if (obstacle.end <= place || obstacle.begin >= place + problem_.size[storage]) continue;
          place = (obstacle.end + mask) & ~mask;
          blocked = true;
        }
      }
    }
  }
  return place;
}

// What is not placed lies above `lowest` and its floor, beside what is fixed.
bool CanonicalSearch::SectionsHaveRoom(uint64_t lowest) const {
  for (uint32_t s = 0; s < floor_.size(); ++s) {
    if (load_[s] == 0) continue;
    const uint64_t base = std::max(lowest, floor_[s]);
    uint64_t needed = base + load_[s];
    for (const Obstacle& obstacle : obstacles_[s]) {
      if (obstacle.end > base) needed += obstacle.end - std::max(obstacle.begin, base);
    }
    if (needed >= height_) return false;
  }
  return true;
}

void CanonicalSearch::Place(const Candidate& candidate) {
  placed_[candidate.storage] = true;
  --left_;
  offsets_[candidate.storage] = candidate.offset;
  const uint64_t size = problem_.size[candidate.storage];
  for (const SectionRange& range : problem_.ranges_of(candidate.storage)) {
    for (uint32_t s = range.begin; s < range.end; ++s) {
      saved_.push_back({s, floor_[s]});
      floor_[s] = candidate.offset + size;
      load_[s] -= size;
    }
  }
}

void CanonicalSearch::Undo(uint32_t storage, size_t saved) {
  placed_[storage] = false;
  ++left_;
  for (const SectionRange& range : problem_.ranges_of(storage)) {
    for (uint32_t s = range.begin; s < range.end; ++s) load_[s] += problem_.size[storage];
  }
  for (; saved_.size() > saved; saved_.pop_back())
    floor_[saved_.back().section] = saved_.back().floor;
}

}  // namespace tenure
