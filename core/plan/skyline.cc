#include "core/plan/skyline.h"

#include <numeric>

namespace tenure {

Skyline::Skyline(const StripProblem& problem, const std::vector<uint32_t>& order)
    : sections_(problem.sections + 1) {
  pieces_.reserve(order.size());
  for (const uint32_t storage : order) {
    const auto [begin, end] = problem.range[storage];
    const int64_t size = problem.size[storage];
    pieces_.push_back(
        {.begin = begin, .end = end, .size = size, .storage = storage, .twin = kNobody});
    for (uint32_t s = begin; s < end; ++s) {
      sections_[s].unplaced += size;
      sections_[s].crossing += s > begin ? size : 0;
    }
  }
  for (uint32_t s = 0; s < problem.sections; ++s) {
    const bool joined = s > 0 && sections_[s].crossing > 0;
    sections_[s].run_begin = joined ? sections_[s - 1].run_begin : s;
    sections_[sections_[s].run_begin].run_end = s + 1;
  }
  ListPieces();
}

void Skyline::ListPieces() {
  for (Lists* lists : {&beginning_, &ending_}) {
    lists->first.resize(sections_.size() + 1);
    lists->pieces.resize(pieces_.size());
  }
  for (const Piece& piece : pieces_) {
    ++beginning_.first[piece.begin + 1];
    ++ending_.first[piece.end + 1];
  }
  std::partial_sum(beginning_.first.begin(), beginning_.first.end(), beginning_.first.begin());
  std::partial_sum(ending_.first.begin(), ending_.first.end(), ending_.first.begin());
  std::vector<uint32_t> next_beginning = beginning_.first;
  std::vector<uint32_t> next_ending = ending_.first;
  for (uint32_t i = 0; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    uint32_t& next = next_beginning[piece.begin];
    for (uint32_t at = beginning_.first[piece.begin]; at < next; ++at) {
      const Piece& other = pieces_[beginning_.pieces[at]];
      if (other.end == piece.end && other.size == piece.size) piece.twin = beginning_.pieces[at];
    }
    beginning_.pieces[next++] = i;
    ending_.pieces[next_ending[piece.end]++] = i;
  }
}

bool Skyline::Place(uint32_t index, const Valley& valley) {
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
    if (s == piece.begin) continue;
    section.crossing -= piece.size;
    split = split || section.crossing == 0;
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

void Skyline::Raise(uint32_t at, const Valley& valley, int64_t floor) {
  Section& section = sections_[at];
  saved_.push_back({at, section.last, section.floor, section.top});
  section.floor = floor;
  LeaveRun({at, at + 1}, valley);
  JoinRun({at, at + 1});
}

void Skyline::LeaveRun(const SectionRange& range, const Valley& valley) {
  if (valley.begin < range.begin) SetRun(valley.begin, range.begin);
  if (range.end < valley.end) SetRun(range.end, valley.end);
}

void Skyline::JoinRun(const SectionRange& range) {
  uint32_t begin = range.begin;
  uint32_t end = range.end;
  const int64_t floor = sections_[begin].floor;
  if (sections_[begin].crossing > 0 && sections_[begin - 1].floor == floor) {
    begin = sections_[begin - 1].run_begin;
  }
  if (sections_[end].crossing > 0 && sections_[end].floor == floor) {
    end = sections_[end].run_end;
  }
  SetRun(begin, end);
}

void Skyline::SetRun(uint32_t begin, uint32_t end) {
  Section& first = sections_[begin];
  saved_runs_.push_back({begin, first.run_begin, first.run_end});
  first.run_end = end;
  Section& last = sections_[end - 1];
  saved_runs_.push_back({end - 1, last.run_begin, last.run_end});
  last.run_begin = begin;
}

void Skyline::Undo(const Mark& mark) {
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
      sections_[s].crossing += s > piece.begin ? piece.size : 0;
    }
  }
}

std::vector<uint64_t> Skyline::Offsets() const {
  std::vector<uint64_t> offsets(pieces_.size());
  for (const Piece& piece : pieces_) offsets[piece.storage] = static_cast<uint64_t>(piece.offset);
  return offsets;
}

}  // namespace tenure
