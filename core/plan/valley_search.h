#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/plan/packed_problem.h"
#include "core/plan/search_budget.h"
#include "core/plan/strip_problem.h"

namespace tenure {

// What is tried first. The search is complete with each of them, but each is good for other
// problems.
struct ValleyStrategy {
  // Which of the storages that fit somewhere.
  enum class Order { kWidth, kSize, kArea, kWidthArea, kSizeArea, kNarrow };
  // Which place, beside how few possibilities it has: any, with little slack, low, narrow.
  enum class Choice { kFewest, kSlack, kSlackTimesFewest, kNarrowest, kLowest, kLowTimesFewest };
  Order order = Order::kSize;
  Choice choice = Choice::kSlack;
};

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
  static constexpr int64_t kWall = std::numeric_limits<int64_t>::max();
  // A look at more of them takes longer than it helps.
  static constexpr uint32_t kMostValleys = 64;
  // Where all pieces that begin in a valley are too many to look at.
  static constexpr uint32_t kWide = 1024;
  static constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

  // A storage; they are numbered in the order in which they are tried.
  struct Piece {
    uint32_t begin;
    uint32_t end;
    int64_t size;
    uint32_t storage;
    uint32_t twin;  // the one before it that is the same, or kNobody
    bool placed = false;
    int64_t offset = 0;
  };
  struct Section {
    int64_t floor = 0;
    int64_t top = 0;          // of what was placed last: the floor, unless that was raised
    uint32_t last = kNobody;  // what was placed last
    uint32_t crossing = 0;    // unplaced pieces that are also in the section before
    int64_t unplaced = 0;     // the sum of the sizes of all that are in this one
    // The run of sections with this one's floor, known at its last and at its first section. A run
    // ends where no piece crosses.
    uint32_t run_begin = 0;
    uint32_t run_end = 0;
  };
  struct Saved {
    uint32_t section;
    uint32_t last;
    int64_t floor;
    int64_t top;
  };
  struct SavedRun {
    uint32_t section;
    uint32_t run_begin;
    uint32_t run_end;
  };
  // The pieces of each section in turn, in their order.
  struct Lists {
    std::vector<uint32_t> first{};
    std::vector<uint32_t> pieces{};
  };
  struct Valley {
    uint32_t begin;
    uint32_t end;
    int64_t floor;
    int64_t brink;  // the lower one of the floors beside it, or kWall
  };
  // An end of a valley, to go on at.
  struct Edge {
    Valley valley{};
    bool left = true;
    double score = std::numeric_limits<double>::infinity();
    uint32_t section() const { return left ? valley.begin : valley.end - 1; }
  };
  struct Mark {
    size_t saved = 0;
    size_t saved_runs = 0;
    size_t placed = 0;
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
    Mark mark{};  // before a piece was placed
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
  // Finds the edge to go on at and places the first piece there.
  Progress Settle(Frame& frame);
  Progress PlaceNext(Frame& frame);
  // The best place to go on at: kEdge, kDeadEnd or kDone.
  Look FindEdge(uint32_t begin, uint32_t end, Edge& best);
  // Raises what nothing can lie on at the ends of `valley`, which gets narrower by that, and makes
  // `best` an end of it if that is better. False for a dead end.
  bool LookAt(Valley& valley, Edge& best);
  Look LookAtEnd(Edge& edge);
  // Nothing lies on the floor at `edge`. False if there is no slack for that.
  bool LeaveHole(const Edge& edge);

  bool IsFree(uint32_t piece, const Valley& valley) const;
  bool MayLieOn(uint32_t piece, int64_t floor) const;
  double Score(uint32_t options, const Valley& valley, uint32_t section) const;
  int64_t Slack(const Section& section) const {
    return capacity_ - section.floor - section.unplaced;
  }

  // On the floor of `valley`. True if sections are no longer connected.
  bool Place(uint32_t piece, const Valley& valley);
  // Raises the floor of a section at an end of `valley`.
  void Raise(uint32_t section, const Valley& valley, int64_t floor);
  void LeaveRun(const SectionRange& range, const Valley& valley);
  void JoinRun(const SectionRange& range);
  void SetRun(uint32_t begin, uint32_t end);
  void Undo(const Mark& mark);
  Look DeadEnd(uint32_t section);
  std::span<const uint32_t> PiecesAt(const Edge& edge) const;

  const StripProblem& problem_;
  const ValleyStrategy strategy_;
  std::vector<Piece> pieces_;
  Lists starting_;
  Lists ending_;
  int64_t smallest_ = kWall;
  std::vector<double> weight_;  // by section

  int64_t capacity_ = 0;
  uint64_t nodes_left_ = 0;
  SearchBudget* budget_ = nullptr;
  bool stopped_ = false;
  std::vector<Section> sections_;
  std::vector<Frame> frames_;
  std::vector<Saved> saved_;
  std::vector<SavedRun> saved_runs_;
  std::vector<uint32_t> placed_;
  std::vector<uint64_t> offsets_;
};

}  // namespace tenure
