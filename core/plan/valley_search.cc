#include "core/plan/valley_search.h"

#include <algorithm>

namespace tenure {
ValleySearch::ValleySearch(const StripProblem& problem, ValleyStrategy strategy)
    : problem_(problem),
      strategy_(strategy),
      smallest_(std::ranges::min(problem.size)),
      weight_(problem.sections, 1),
      skyline_(problem, OrderPieces(problem, strategy.order)) {}

ValleySearch::Outcome ValleySearch::Search(int64_t capacity, uint64_t nodes_limit,
                                           SearchBudget& budget) {
  capacity_ = capacity;
  nodes_left_ = nodes_limit;
  budget_ = &budget;
  stopped_ = false;
  if (capacity < problem_.bound) return Outcome::kNone;
  const bool found = Solve();
  if (found) offsets_ = skyline_.Offsets();
  skyline_.Undo({});
  return found ? Outcome::kFound : stopped_ ? Outcome::kStopped : Outcome::kNone;
}

bool ValleySearch::Solve() {
  // What lies at the bottom stands for everything and only has parts.
  frames_.assign(1, {.begin = 0, .end = problem_.sections, .next_part = 0, .split = true});
  Progress progress = Progress::kPlaced;
  while (!frames_.empty()) {
    switch (progress) {
      case Progress::kPlaced: {
        const SectionRange part = NextPart(frames_.back());
        if (part.begin == part.end) {
          progress = Progress::kDone;
          break;
        }
        frames_.push_back({.begin = part.begin, .end = part.end});
        progress = Settle(frames_.back());
        break;
      }
      case Progress::kDone:
        frames_.pop_back();
        progress = Progress::kPlaced;
        break;
      case Progress::kFailed:
        frames_.pop_back();
        if (stopped_ || frames_.size() == 1) return false;
        progress = GoOn(frames_.back());
        break;
    }
  }
  return true;
}

SectionRange ValleySearch::NextPart(Frame& frame) const {
  uint32_t begin = frame.next_part;
  frame.next_part = frame.end;
  if (!frame.split) return {begin, frame.end};
  for (; begin < frame.end; ++begin) {
    if (skyline_.section(begin).unplaced == 0) continue;
    uint32_t end = begin + 1;
    while (end < frame.end && skyline_.section(end).crossing > 0) ++end;
    frame.next_part = end;
    return {begin, end};
  }
  return {frame.end, frame.end};
}

ValleySearch::Progress ValleySearch::Settle(Frame& frame) {
  do {
    if (nodes_left_ == 0) stopped_ = true;
    if (stopped_) return Progress::kFailed;
    --nodes_left_;
    frame.edge = Edge();
    const Look look = FindEdge(frame.begin, frame.end, frame.edge);
    if (stopped_ || look == Look::kDeadEnd) return Progress::kFailed;
    if (look == Look::kDone) return Progress::kDone;
    frame.next_piece = 0;
    frame.mark = skyline_.mark();
    if (PlaceNext(frame)) return Progress::kPlaced;
  } while (LeaveHole(frame.edge));
  return Progress::kFailed;
}

ValleySearch::Progress ValleySearch::GoOn(Frame& frame) {
  skyline_.Undo(frame.mark);
  if (PlaceNext(frame)) return Progress::kPlaced;
  return LeaveHole(frame.edge) ? Settle(frame) : Progress::kFailed;
}

bool ValleySearch::PlaceNext(Frame& frame) {
  const Valley& valley = frame.edge.valley;
  const std::span<const uint32_t> pieces = PiecesAt(frame.edge);
  while (frame.next_piece < pieces.size()) {
    const uint32_t piece = pieces[frame.next_piece++];
    if (!IsFree(piece, valley) || !MayLieOn(piece, valley.floor)) continue;
    frame.next_part = frame.begin;
    frame.split = skyline_.Place(piece, valley) || frame.end - frame.begin == 1;
    return true;
  }
  return false;
}

ValleySearch::Look ValleySearch::FindEdge(uint32_t begin, uint32_t end, Edge& best) {
  int64_t before = Valley::kWall;
  uint32_t valleys = 0;
  uint64_t words = 0;
  uint32_t at = begin;
  while (at < end && valleys < kMostValleys) {
    ++words;
    Valley valley{.begin = at,
                  .end = skyline_.section(at).run_end,
                  .floor = skyline_.section(at).floor,
                  .left = before};
    if (valley.end < end) valley.right = skyline_.section(valley.end).floor;
    at = valley.end;
    before = valley.floor;
    if (valley.left <= valley.floor || valley.right <= valley.floor) continue;
    if (!LookAt(valley, best)) {
      if (!budget_->Spend(1, 4 * words)) stopped_ = true;
      return Look::kDeadEnd;
    }
    ++valleys;
    if (valley.begin == valley.end) {  // part of a neighbour now, which may be a valley by that
      at = begin;
      before = Valley::kWall;
      best = Edge();
      valleys = 0;
      continue;
    }
    if (best.score == 0) break;
    before = skyline_.section(at - 1).floor;
  }
  if (!budget_->Spend(1, 4 * words)) stopped_ = true;
  return best.score == std::numeric_limits<double>::infinity() ? Look::kDone : Look::kEdge;
}

bool ValleySearch::LookAt(Valley& valley, Edge& best) {
  Edge edge;
  for (bool left = true; valley.begin < valley.end;) {
    Edge end{.valley = valley, .left = left};
    switch (LookAtEnd(end)) {
      case Look::kDeadEnd:
        return false;
      case Look::kRaised:
        if (left) {
          valley.left = skyline_.section(valley.begin++).floor;
        } else {
          valley.right = skyline_.section(--valley.end).floor;
        }
        edge = Edge();
        left = true;
        continue;
      case Look::kEdge:
      case Look::kDone:
        break;
    }
    if (end.score < edge.score) edge = end;
    if (!left) break;
    left = false;
  }
  if (valley.begin < valley.end && edge.score < best.score) best = edge;
  return true;
}

ValleySearch::Load ValleySearch::LoadAt(const Edge& edge) const {
  const Valley& valley = edge.valley;
  const Skyline::Section& section = skyline_.section(edge.section());
  Load load;
  for (const uint32_t piece : PiecesAt(edge)) {
    if (!IsFree(piece, valley)) continue;
    load.within += skyline_.piece(piece).size;
    if (MayLieOn(piece, valley.floor)) ++load.options;
  }
  const int64_t across = skyline_.section(edge.left ? valley.begin : valley.end).crossing;
  load.ending = section.unplaced - across;
  if (across > 0) load.above = load.wall = edge.left ? valley.left : valley.right;
  if (load.ending > load.within) {
    load.above = std::min(load.above, edge.left ? valley.right : valley.left);
  }
  return load;
}

ValleySearch::Look ValleySearch::LookAtEnd(Edge& edge) {
  const Valley& valley = edge.valley;
  const uint32_t at = edge.section();
  if (skyline_.section(at).unplaced == 0) return Look::kDone;
  const Load load = LoadAt(edge);
  const int64_t slack = Slack(skyline_.section(at));
  // Only so much can lie below what is wider than the valley.
  if (load.above != Valley::kWall && load.above - valley.floor - load.within > slack)
    return DeadEnd(at);
  if (load.wall != Valley::kWall && load.wall - valley.floor - load.ending > slack)
    return DeadEnd(at);
  if (load.within == 0) {
    skyline_.Raise(at, valley, load.above);
    return Look::kRaised;
  }
  const uint32_t options = load.options + (slack > 0 ? 1 : 0);
  if (options == 0) return DeadEnd(at);
  edge.score = options == 1 ? 0 : Score(options, valley, at);
  return Look::kEdge;
}

bool ValleySearch::LeaveHole(const Edge& edge) {
  const Valley& valley = edge.valley;
  const uint32_t at = edge.section();
  const int64_t slack = Slack(skyline_.section(at));
  // What lies above the hole is wider than the valley, or rests on something beside the hole.
  int64_t lowest = Valley::kWall;
  const bool wide = valley.end - valley.begin > kWide;
  if (wide) lowest = smallest_;
  for (uint32_t s = valley.begin; !wide && s < valley.end; ++s) {
    for (const uint32_t index : skyline_.beginning(s)) {
      const Skyline::Piece& piece = skyline_.piece(index);
      if (piece.placed || piece.end > valley.end || (piece.begin <= at && at < piece.end)) continue;
      lowest = std::min(lowest, piece.size);
    }
  }
  int64_t floor = LoadAt(edge).above;
  if (lowest <= slack) floor = std::min(floor, valley.floor + lowest);
  if (slack <= 0 || floor == Valley::kWall || floor - valley.floor > slack) {
    DeadEnd(at);
    return false;
  }
  skyline_.Raise(at, valley, floor);
  return true;
}

bool ValleySearch::IsFree(uint32_t index, const Valley& valley) const {
  const Skyline::Piece& piece = skyline_.piece(index);
  return !piece.placed && piece.begin >= valley.begin && piece.end <= valley.end;
}

bool ValleySearch::MayLieOn(uint32_t index, int64_t floor) const {
  const Skyline::Piece& piece = skyline_.piece(index);
  if (piece.twin != Skyline::kNobody && !skyline_.piece(piece.twin).placed) return false;
  const Skyline::Section& first = skyline_.section(piece.begin);
  if (first.last != Skyline::kNobody && first.top == floor && first.last > index) {
    const Skyline::Piece& below = skyline_.piece(first.last);
    if (below.begin == piece.begin && below.end == piece.end) return false;
  }
  if (floor == 0) return true;
  for (uint32_t s = piece.begin; s < piece.end; ++s) {
    if (skyline_.section(s).top == floor) return true;
  }
  return false;
}

double ValleySearch::Score(uint32_t options, const Valley& valley, uint32_t section) const {
  const auto capacity = static_cast<double>(capacity_);
  const double slack = static_cast<double>(Slack(skyline_.section(section))) / capacity;
  const double floor = static_cast<double>(valley.floor) / capacity;
  double score = options;
  switch (strategy_.choice) {
    case ValleyStrategy::Choice::kFewest:
      score = options + 1e-3 * floor;
      break;
    case ValleyStrategy::Choice::kSlack:
      score = options + slack;
      break;
    case ValleyStrategy::Choice::kSlackTimesFewest:
      score = options * (0.1 + slack);
      break;
    case ValleyStrategy::Choice::kNarrowest:
      score = static_cast<double>(options) * (valley.end - valley.begin);
      break;
    case ValleyStrategy::Choice::kLowest:
      score = floor + 1e-3 * options;
      break;
    case ValleyStrategy::Choice::kLowTimesFewest:
      score = options * (0.05 + floor);
      break;
  }
  return score / weight_[section];
}

ValleySearch::Look ValleySearch::DeadEnd(uint32_t section) {
  weight_[section] += 1;
  return Look::kDeadEnd;
}

std::span<const uint32_t> ValleySearch::PiecesAt(const Edge& edge) const {
  return edge.left ? skyline_.beginning(edge.valley.begin) : skyline_.ending(edge.valley.end);
}

}  // namespace tenure
