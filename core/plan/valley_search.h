#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/plan/packed_problem.h"
#include "core/plan/search_budget.h"
#include "core/plan/skyline.h"
#include "core/plan/strip_problem.h"
#include "core/plan/valley_strategy.h"

namespace tenure {

// Searches a strip for a plan within a capacity.
//
// Every section has a floor: what is not placed yet lies above it. A valley is a longest run of
// sections with one floor between higher ones. Whatever lies on the floor at an end of a valley
// lies within the valley as a whole, since it cannot reach below the higher floors: one of the few
// storages that begin (or end) there and are no wider than the valley, or nothing, so that the
// floor may be raised to where the next one could lie. This is a complete branching, wherever the
// valley is, so the search goes on where the fewest possibilities are left. A section has as much
// slack as the capacity exceeds its floor and what has to lie above it; a raised floor costs slack.
//
// Further: every storage rests on another one or on the ground; of two storages with the same
// sections the order is fixed if one lies on the other, or if they are of one size; ranges of
// sections that no storage connects any more are searched one after the other, so that what fails
// in one is not tried again with everything in another; sections that were dead ends weigh more,
// as in dom/wdeg (Boussemart et al., 2004), which is kept from one call to the next.
//
// Thread-compatible.
class ValleySearch {
 public:
  enum class Outcome {
    kFound,
    kNone,     // there is no plan within the capacity
    kStopped,  // by the limit or the budget
  };

  // REQUIRES: `problem` outlives it.
  ValleySearch(const StripProblem& problem, ValleyStrategy strategy);

  Outcome Search(int64_t capacity, uint64_t nodes_limit, SearchBudget& budget);

  // By storage, once it was found.
  const std::vector<uint64_t>& offsets() const { return offsets_; }

 private:
  // A look at more of them takes longer than it helps.
  static constexpr uint32_t kMostValleys = 64;
  // Where all pieces that begin in a valley are too many to look at.
  static constexpr uint32_t kWide = 1024;

  // An end of a valley, to go on at.
  struct Edge {
    Valley valley{};
    bool left = true;
    double score = std::numeric_limits<double>::infinity();
    uint32_t section() const { return left ? valley.begin : valley.end - 1; }
  };
  // What is not placed in the section at an edge: what is in the valley only, what ends at the
  // edge, which may reach beyond the other one, and what goes across it.
  struct Load {
    uint32_t options = 0;  // of what is within, what may lie on the floor
    int64_t within = 0;    // sums of sizes
    int64_t ending = 0;
    int64_t above = Valley::kWall;  // the lowest floor for what is not within
    int64_t wall = Valley::kWall;   // and for what goes across
  };
  // The search in the connected sections [begin, end): it places one piece at an edge, searches the
  // parts that this leaves, and takes the next piece if one of them fails.
  struct Frame {
    uint32_t begin = 0;
    uint32_t end = 0;
    uint32_t next_piece = 0;  // of those at the edge
    uint32_t next_part = 0;   // where the part after the ones that are done begins
    bool split = false;       // into parts, perhaps
    Edge edge{};
    Skyline::Mark mark{};  // before a piece was placed
  };
  enum class Progress {
    kPlaced,  // a piece: the parts that are left come next
    kDone,    // all of the frame's pieces
    kFailed,  // there is no plan of the frame's pieces, or the search was stopped
  };
  enum class Look { kEdge, kRaised, kDeadEnd, kDone };

  // Places everything. If not, the caller undoes what was done.
  bool Solve();
  // Empty if there is none.
  SectionRange NextPart(Frame& frame) const;
  // Finds the edge to go on at and places the first piece there, or nothing and goes on at another.
  Progress Settle(Frame& frame);
  // Takes the next piece, or none, once a part has failed.
  Progress GoOn(Frame& frame);
  // False if all pieces at the frame's edge have had their turn.
  bool PlaceNext(Frame& frame);
  // The best place to go on at: kEdge, kDeadEnd or kDone.
  Look FindEdge(uint32_t begin, uint32_t end, Edge& best);
  // Raises what nothing can lie on at the ends of `valley`, which gets narrower by that, and makes
  // `best` an end of it if that is better. False for a dead end.
  bool LookAt(Valley& valley, Edge& best);
  Look LookAtEnd(Edge& edge);
  Load LoadAt(const Edge& edge) const;
  // Nothing lies on the floor at `edge`. False if there is no slack for that.
  bool LeaveHole(const Edge& edge);

  bool IsFree(uint32_t index, const Valley& valley) const;
  bool MayLieOn(uint32_t index, int64_t floor) const;
  double Score(uint32_t options, const Valley& valley, uint32_t section) const;
  int64_t Slack(const Skyline::Section& section) const {
    return capacity_ - section.floor - section.unplaced;
  }

  Look DeadEnd(uint32_t section);
  std::span<const uint32_t> PiecesAt(const Edge& edge) const;

  const StripProblem& problem_;
  const ValleyStrategy strategy_;
  const int64_t smallest_;
  std::vector<double> weight_;  // by section

  int64_t capacity_ = 0;
  uint64_t nodes_left_ = 0;
  SearchBudget* budget_ = nullptr;
  bool stopped_ = false;
  Skyline skyline_;
  std::vector<Frame> frames_;
  std::vector<uint64_t> offsets_;
};

}  // namespace tenure
