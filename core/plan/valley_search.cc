#include "core/plan/valley_search.h"

#include <algorithm>
#include <numeric>
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

ValleySearch::ValleySearch(const StripProblem& problem, ValleyStrategy strategy)
    : problem_(problem),
      strategy_(strategy),
      weight_(problem.sections, 1),
      sections_(problem.sections),
      offsets_(problem.size.size()) {
  struct Ranked {
    double rank;
    double second;
    uint32_t storage;
  };
  std::vector<Ranked> ranked;
  for (uint32_t i = 0; i < problem.size.size(); ++i) {
    const double width = problem.range[i].end - problem.range[i].begin;
    const auto size = static_cast<double>(problem.size[i]);
    const bool by_size = strategy.order == ValleyStrategy::Order::kSize;
    smallest_ = std::min(smallest_, problem.size[i]);
    ranked.push_back({RankOf(strategy.order, width, size), by_size ? width : size, i});
  }
  std::ranges::sort(ranked, [](const Ranked& a, const Ranked& b) {
    return std::tie(b.rank, b.second, a.storage) < std::tie(a.rank, a.second, b.storage);
  });
  pieces_.reserve(ranked.size());
  starting_.first.resize(problem.sections + 2);
  ending_.first.resize(problem.sections + 2);
  for (const auto& [rank, second, storage] : ranked) {
    const SectionRange& range = problem.range[storage];
    pieces_.push_back({.begin = range.begin,
                       .end = range.end,
                       .size = problem.size[storage],
                       .storage = storage,
                       .twin = kNobody});
    ++starting_.first[range.begin + 1];
    ++ending_.first[range.end + 1];
    for (uint32_t s = range.begin; s < range.end; ++s) {
      sections_[s].unplaced += problem.size[storage];
      sections_[s].crossing += s > range.begin ? 1 : 0;
    }
  }
  for (uint32_t s = 0; s < problem.sections; ++s) {
    // Runs do not reach across what nothing connects.
    const bool joined = s > 0 && sections_[s].crossing > 0;
    sections_[s].run_begin = joined ? sections_[s - 1].run_begin : s;
    sections_[sections_[s].run_begin].run_end = s + 1;
  }
  std::partial_sum(starting_.first.begin(), starting_.first.end(), starting_.first.begin());
  std::partial_sum(ending_.first.begin(), ending_.first.end(), ending_.first.begin());
  starting_.pieces.resize(pieces_.size());
  ending_.pieces.resize(pieces_.size());
  std::vector<uint32_t> next_start = starting_.first;
  std::vector<uint32_t> next_end = ending_.first;
  for (uint32_t i = 0; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    for (uint32_t at = starting_.first[piece.begin]; at < next_start[piece.begin]; ++at) {
      const Piece& other = pieces_[starting_.pieces[at]];
      if (other.end == piece.end && other.size == piece.size) piece.twin = starting_.pieces[at];
    }
    starting_.pieces[next_start[piece.begin]++] = i;
    ending_.pieces[next_end[piece.end]++] = i;
  }
}

ValleySearch::Outcome ValleySearch::Search(int64_t capacity, uint64_t nodes_limit,
                                           SearchBudget& budget) {
  capacity_ = capacity;
  nodes_left_ = nodes_limit;
  budget_ = &budget;
  stopped_ = false;
  if (capacity < problem_.bound) return Outcome::kNone;
  const bool found = Solve();
  if (found) {
    for (const Piece& piece : pieces_) {
      offsets_[piece.storage] = static_cast<uint64_t>(piece.offset);
    }
  }
  Undo({0, 0, 0});
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
        Undo(frames_.back().mark);
        progress = PlaceNext(frames_.back());
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
    if (sections_[begin].unplaced == 0) continue;
    uint32_t end = begin + 1;
    while (end < frame.end && sections_[end].crossing > 0) ++end;
    frame.next_part = end;
    return {begin, end};
  }
  return {frame.end, frame.end};
}

ValleySearch::Progress ValleySearch::Settle(Frame& frame) {
  if (nodes_left_ == 0) stopped_ = true;
  if (stopped_) return Progress::kFailed;
  --nodes_left_;
  frame.edge = Edge();
  const Look look = FindEdge(frame.begin, frame.end, frame.edge);
  if (stopped_ || look == Look::kDeadEnd) return Progress::kFailed;
  if (look == Look::kDone) return Progress::kDone;
  frame.next_piece = 0;
  frame.mark = {saved_.size(), saved_runs_.size(), placed_.size()};
  return PlaceNext(frame);
}

ValleySearch::Progress ValleySearch::PlaceNext(Frame& frame) {
  const Valley& valley = frame.edge.valley;
  const std::span<const uint32_t> pieces = PiecesAt(frame.edge);
  while (frame.next_piece < pieces.size()) {
    const uint32_t piece = pieces[frame.next_piece++];
    if (!IsFree(piece, valley) || !MayLieOn(piece, valley.floor)) continue;
    frame.next_part = frame.begin;
    frame.split = Place(piece, valley) || frame.end - frame.begin == 1;
    return Progress::kPlaced;
  }
  return LeaveHole(frame.edge) ? Settle(frame) : Progress::kFailed;
}

ValleySearch::Look ValleySearch::FindEdge(uint32_t begin, uint32_t end, Edge& best) {
  int64_t before = kWall;
  uint32_t valleys = 0;
  uint64_t words = 0;
  uint32_t at = begin;
  while (at < end && valleys < kMostValleys) {
    ++words;
    Valley valley{
        .begin = at, .end = sections_[at].run_end, .floor = sections_[at].floor, .brink = before};
    const int64_t after = valley.end < end ? sections_[valley.end].floor : kWall;
    valley.brink = std::min(valley.brink, after);
    at = valley.end;
    before = valley.floor;
    if (valley.brink <= valley.floor) continue;
    if (!LookAt(valley, best)) {
      if (!budget_->Spend(1, 4 * words)) stopped_ = true;
      return Look::kDeadEnd;
    }
    ++valleys;
    if (valley.begin == valley.end) {  // part of a neighbour now, which may be a valley by that
      at = begin;
      before = kWall;
      best = Edge();
      valleys = 0;
      continue;
    }
    if (best.score == 0) break;
    before = sections_[at - 1].floor;
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
        left ? ++valley.begin : --valley.end;
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

ValleySearch::Look ValleySearch::LookAtEnd(Edge& edge) {
  const Valley& valley = edge.valley;
  const uint32_t at = edge.section();
  const Section& section = sections_[at];
  if (section.unplaced == 0) return Look::kDone;
  uint32_t options = 0;
  bool any = false;
  int64_t within = 0;
  for (const uint32_t piece : PiecesAt(edge)) {
    if (!IsFree(piece, valley)) continue;
    any = true;
    within += pieces_[piece].size;
    if (MayLieOn(piece, valley.floor)) ++options;
  }
  const int64_t slack = Slack(section);
  if (valley.brink != kWall) {
    // What is wider than the valley lies above the brink, and only so much can lie below it.
    if (section.unplaced > within && valley.brink - valley.floor - within > slack) {
      return DeadEnd(at);
    }
    if (!any) {
      Raise(at, valley, valley.brink);
      return Look::kRaised;
    }
  }
  if (slack > 0) ++options;
  if (options == 0) return DeadEnd(at);
  edge.score = options == 1 ? 0 : Score(options, valley, at);
  return Look::kEdge;
}

bool ValleySearch::LeaveHole(const Edge& edge) {
  const Valley& valley = edge.valley;
  const uint32_t at = edge.section();
  const int64_t slack = Slack(sections_[at]);
  // What lies above the hole is wider than the valley, or rests on something beside the hole.
  int64_t lowest = kWall;
  const bool wide = valley.end - valley.begin > kWide;
  if (wide) lowest = smallest_;
  for (uint32_t s = valley.begin; !wide && s < valley.end; ++s) {
    for (uint32_t i = starting_.first[s]; i < starting_.first[s + 1]; ++i) {
      const Piece& piece = pieces_[starting_.pieces[i]];
      if (piece.placed || piece.end > valley.end || (piece.begin <= at && at < piece.end)) continue;
      lowest = std::min(lowest, piece.size);
    }
  }
  int64_t floor = valley.brink;
  if (lowest != kWall) floor = std::min(floor, valley.floor + lowest);
  if (slack <= 0 || floor == kWall || floor - valley.floor > slack) {
    DeadEnd(at);
    return false;
  }
  Raise(at, valley, floor);
  return true;
}

bool ValleySearch::IsFree(uint32_t index, const Valley& valley) const {
  const Piece& piece = pieces_[index];
  return !piece.placed && piece.begin >= valley.begin && piece.end <= valley.end;
}

bool ValleySearch::MayLieOn(uint32_t index, int64_t floor) const {
  const Piece& piece = pieces_[index];
  if (piece.twin != kNobody && !pieces_[piece.twin].placed) return false;
  const Section& first = sections_[piece.begin];
  if (first.last != kNobody && first.top == floor && first.last > index) {
    const Piece& below = pieces_[first.last];
    if (below.begin == piece.begin && below.end == piece.end) return false;
  }
  if (floor == 0) return true;
  for (uint32_t s = piece.begin; s < piece.end; ++s) {
    if (sections_[s].top == floor) return true;
  }
  return false;
}

double ValleySearch::Score(uint32_t options, const Valley& valley, uint32_t section) const {
  const auto capacity = static_cast<double>(capacity_);
  const double slack = static_cast<double>(Slack(sections_[section])) / capacity;
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

bool ValleySearch::Place(uint32_t index, const Valley& valley) {
  Piece& piece = pieces_[index];
  piece.placed = true;
  piece.offset = valley.floor;
  placed_.push_back(index);
  const int64_t top = valley.floor + piece.size;
  bool split = false;
  for (uint32_t s = piece.begin; s < piece.end; ++s) {
    Section& section = sections_[s];
    saved_.push_back({s, section.last, section.floor, section.top});
    section.floor = section.top = top;
    section.last = index;
    section.unplaced -= piece.size;
    if (s > piece.begin && --section.crossing == 0) split = true;
  }
  LeaveRun({piece.begin, piece.end}, valley);
  uint32_t begin = piece.begin;
  for (uint32_t s = piece.begin + 1; split && s < piece.end; ++s) {
    if (sections_[s].crossing > 0) continue;
    JoinRun({begin, s});
    begin = s;
  }
  JoinRun({begin, piece.end});
  return split;
}

void ValleySearch::Raise(uint32_t at, const Valley& valley, int64_t floor) {
  Section& section = sections_[at];
  saved_.push_back({at, section.last, section.floor, section.top});
  section.floor = floor;
  LeaveRun({at, at + 1}, valley);
  JoinRun({at, at + 1});
}

void ValleySearch::LeaveRun(const SectionRange& range, const Valley& valley) {
  if (valley.begin < range.begin) SetRun(valley.begin, range.begin);
  if (range.end < valley.end) SetRun(range.end, valley.end);
}

void ValleySearch::JoinRun(const SectionRange& range) {
  uint32_t begin = range.begin;
  uint32_t end = range.end;
  const int64_t floor = sections_[begin].floor;
  if (sections_[begin].crossing > 0 && sections_[begin - 1].floor == floor) {
    begin = sections_[begin - 1].run_begin;
  }
  if (end < problem_.sections && sections_[end].crossing > 0 && sections_[end].floor == floor) {
    end = sections_[end].run_end;
  }
  SetRun(begin, end);
}

void ValleySearch::SetRun(uint32_t begin, uint32_t end) {
  Section& first = sections_[begin];
  saved_runs_.push_back({begin, first.run_begin, first.run_end});
  first.run_end = end;
  Section& last = sections_[end - 1];
  saved_runs_.push_back({end - 1, last.run_begin, last.run_end});
  last.run_begin = begin;
}

void ValleySearch::Undo(const Mark& mark) {
  for (; saved_runs_.size() > mark.saved_runs; saved_runs_.pop_back()) {
    const SavedRun& saved = saved_runs_.back();
    sections_[saved.section].run_begin = saved.run_begin;
    sections_[saved.section].run_end = saved.run_end;
  }
  for (; saved_.size() > mark.saved; saved_.pop_back()) {
    const Saved& saved = saved_.back();
    Section& section = sections_[saved.section];
    section.floor = saved.floor;
    section.top = saved.top;
    section.last = saved.last;
  }
  for (; placed_.size() > mark.placed; placed_.pop_back()) {
    Piece& piece = pieces_[placed_.back()];
    piece.placed = false;
    for (uint32_t s = piece.begin; s < piece.end; ++s) {
      sections_[s].unplaced += piece.size;
      sections_[s].crossing += s > piece.begin ? 1 : 0;
    }
  }
}

ValleySearch::Look ValleySearch::DeadEnd(uint32_t section) {
  weight_[section] += 1;
  return Look::kDeadEnd;
}

std::span<const uint32_t> ValleySearch::PiecesAt(const Edge& edge) const {
  const Lists& lists = edge.left ? starting_ : ending_;
  const uint32_t at = edge.left ? edge.valley.begin : edge.valley.end;
  return std::span(lists.pieces).subspan(lists.first[at], lists.first[at + 1] - lists.first[at]);
}

}  // namespace tenure
