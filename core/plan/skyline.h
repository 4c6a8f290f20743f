#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/plan/packed_problem.h"
#include "core/plan/strip_problem.h"

namespace tenure {

// A longest run of connected sections [begin, end) with one floor.
struct Valley {
  static constexpr int64_t kWall = std::numeric_limits<int64_t>::max();

  uint32_t begin = 0;
  uint32_t end = 0;
  int64_t floor = 0;
  // The floors beside it; kWall where it is not connected.
  int64_t left = kWall;
  int64_t right = kWall;
};

// A strip that is filled from below. Every section has a floor: what is not placed yet lies above
// it. Pieces are placed on a floor and floors raised, in any order, and that is undone in the
// opposite one. Sections are connected as long as a piece that is not placed goes across them, and
// runs of one floor are known without a look at each section.
//
// Thread-compatible.
class Skyline {
 public:
  static constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

  // A storage of the strip.
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
    // The sum of the sizes of the unplaced pieces that are in it, and of those of them that are
    // also in the section before.
    int64_t unplaced = 0;
    int64_t crossing = 0;
    // The run of connected sections with this floor, known at its last and at its first section.
    uint32_t run_begin = 0;
    uint32_t run_end = 0;
  };
  // Where to go back to.
  struct Mark {
    size_t saved = 0;
    size_t saved_runs = 0;
    size_t placed = 0;
  };

  // Nothing is placed. Pieces are numbered as `order` has their storages, which are all of them.
  Skyline(const StripProblem& problem, const std::vector<uint32_t>& order);

  const Piece& piece(uint32_t index) const { return pieces_[index]; }
  // The one beyond the last is connected with nothing.
  const Section& section(uint32_t index) const { return sections_[index]; }
  // The pieces that begin with a section, or end before it, in their order.
  std::span<const uint32_t> beginning(uint32_t section) const { return beginning_.of(section); }
  std::span<const uint32_t> ending(uint32_t section) const { return ending_.of(section); }

  // On the floor of `valley`. True if sections are no longer connected.
  // REQUIRES: the piece is in the valley, at an end of it.
  bool Place(uint32_t index, const Valley& valley);
  // The floor of the section at an end of `valley`.
  void Raise(uint32_t at, const Valley& valley, int64_t floor);

  Mark mark() const { return {saved_.size(), saved_runs_.size(), placed_.size()}; }
  void Undo(const Mark& mark);

  // By storage.
  std::vector<uint64_t> Offsets() const;

 private:
  // The pieces of each section in turn.
  struct Lists {
    std::vector<uint32_t> first{};
    std::vector<uint32_t> pieces{};
    std::span<const uint32_t> of(uint32_t section) const {
      return std::span(pieces).subspan(first[section], first[section + 1] - first[section]);
    }
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

  void ListPieces();
  // What is left of `valley` without `range`, which is at an end of it.
  void LeaveRun(const SectionRange& range, const Valley& valley);
  // Makes `range` a run, with the runs beside it that have its floor.
  void JoinRun(const SectionRange& range);
  void SetRun(uint32_t begin, uint32_t end);

  std::vector<Piece> pieces_;
  Lists beginning_;
  Lists ending_;
  std::vector<Section> sections_;  // and one beyond the last
  std::vector<Saved> saved_;
  std::vector<SavedRun> saved_runs_;
  std::vector<uint32_t> placed_;
};

}  // namespace tenure
