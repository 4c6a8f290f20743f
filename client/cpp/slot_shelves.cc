#include "client/cpp/slot_shelves.h"

#include "core/base/check.h"

namespace tenure::client {

std::optional<PoolBlock> SlotShelves::Take(uint64_t bytes, uint64_t alignment) {
  const auto found = shelves_.find({bytes, alignment});
  if (found == shelves_.end() || found->second.idle.empty()) return std::nullopt;
  Shelf& shelf = found->second;
  const uint32_t piece = shelf.idle.back();
  shelf.idle.pop_back();
  return Use(shelf, piece);
}

PoolBlock SlotShelves::Add(uint64_t bytes, uint64_t alignment, uint64_t offset,
                           uint64_t buffer_id) {
  Shelf& shelf = shelves_.try_emplace({bytes, alignment}, idle_ttl_).first->second;
  shelf.bytes = bytes;
  if (spares_.empty()) {
    spares_.push_back(static_cast<uint32_t>(pieces_.size()));
    pieces_.emplace_back();
  }
  const uint32_t piece = spares_.back();
  spares_.pop_back();
  pieces_[piece] = {.shelf = &shelf, .offset = offset, .buffer_id = buffer_id};
  held_ += bytes;
  return Use(shelf, piece);
}

PoolBlock SlotShelves::Use(Shelf& shelf, uint32_t piece) {
  shelf.peak.Note(++shelf.used);
  used_ += shelf.bytes;
  return {.offset = pieces_[piece].offset,
          .bytes = shelf.bytes,
          .name = piece,
          .kind = BufferKind::kActivation,
          .of_slot = true};
}

void SlotShelves::Free(const PoolBlock& block) {
  Shelf& shelf = *pieces_[block.node()].shelf;
  --shelf.used;
  used_ -= shelf.bytes;
  shelf.idle.push_back(block.node());
}

void SlotShelves::TakeOutOne(Shelf& shelf, std::vector<uint64_t>& buffers) {
  const uint32_t piece = shelf.idle.back();
  shelf.idle.pop_back();
  buffers.push_back(pieces_[piece].buffer_id);
  pieces_[piece] = {};
  spares_.push_back(piece);
  held_ -= shelf.bytes;
}

uint64_t SlotShelves::TakeOut(uint64_t most, std::vector<uint64_t>& buffers) {
  const uint64_t held = held_;
  for (auto each = shelves_.begin(); each != shelves_.end();) {
    Shelf& shelf = each->second;
    while (!shelf.idle.empty() && held - held_ < most) TakeOutOne(shelf, buffers);
    each = shelf.used == 0 && shelf.idle.empty() ? shelves_.erase(each) : std::next(each);
  }
  return held - held_;
}

void SlotShelves::Sweep(Instant now, std::vector<uint64_t>& buffers) {
  for (auto each = shelves_.begin(); each != shelves_.end();) {
    Shelf& shelf = each->second;
    shelf.peak.Pass(now, shelf.used);
    while (!shelf.idle.empty() && shelf.used + shelf.idle.size() > shelf.peak.peak()) {
      TakeOutOne(shelf, buffers);
    }
    each = shelf.used == 0 && shelf.idle.empty() ? shelves_.erase(each) : std::next(each);
  }
}

void SlotShelves::Validate() const {
  uint64_t used = 0;
  uint64_t idle = 0;
  for (const auto& [key, shelf] : shelves_) {
    used += shelf.used * shelf.bytes;
    idle += shelf.idle.size() * shelf.bytes;
    for (const uint32_t piece : shelf.idle) TENURE_CHECK(pieces_[piece].shelf == &shelf);
  }
  TENURE_CHECK(used == used_);
  TENURE_CHECK(used + idle == held_);
}

}  // namespace tenure::client
