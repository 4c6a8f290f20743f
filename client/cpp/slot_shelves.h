#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "client/cpp/deadline.h"
#include "client/cpp/pool_block.h"
#include "client/cpp/use_peak.h"

namespace tenure::client {

// The memory of slots, which the daemon grants piece by piece, each a buffer of its: in use, or
// idle and kept for the next slot of the same size. One shelf for each size and alignment.
//
//   held = used + idle
//
// Thread-compatible.
class SlotShelves {
 public:
  explicit SlotShelves(Duration idle_ttl) : idle_ttl_(idle_ttl) {}

  // One that is idle, in use from now on; nullopt if there is none.
  std::optional<PoolBlock> Take(uint64_t bytes, uint64_t alignment);
  // A buffer that the daemon has granted for `bytes` at `alignment`, in use from now on.
  PoolBlock Add(uint64_t bytes, uint64_t alignment, uint64_t offset, uint64_t buffer_id);
  // REQUIRES: it is in use.
  void Free(const PoolBlock& block);

  // Take idle ones out, whose buffers are added to `buffers`: until they have `most` bytes or there
  // are none; those that were not needed lately, see UsePeak.
  uint64_t TakeOut(uint64_t most, std::vector<uint64_t>& buffers);
  void Sweep(Instant now, std::vector<uint64_t>& buffers);

  uint64_t held() const { return held_; }
  uint64_t used() const { return used_; }
  // CHECKs the equation. Linear.
  void Validate() const;

 private:
  struct Shelf {
    explicit Shelf(Duration idle_ttl) : peak(idle_ttl) {}
    uint64_t bytes = 0;          // of each
    uint64_t used = 0;           // how many are in use
    UsePeak peak;                // of that number
    std::vector<uint32_t> idle;  // indices into pieces_; the last one goes out first
  };
  struct Piece {
    Shelf* shelf = nullptr;  // null in a spare row
    uint64_t offset = 0;
    uint64_t buffer_id = 0;
  };

  PoolBlock Use(Shelf& shelf, uint32_t piece);
  // Takes the last idle one of a shelf out.
  void TakeOutOne(Shelf& shelf, std::vector<uint64_t>& buffers);

  const Duration idle_ttl_;
  std::map<std::pair<uint64_t, uint64_t>, Shelf> shelves_;  // by size and alignment
  std::vector<Piece> pieces_;
  std::vector<uint32_t> spares_;  // of pieces_
  uint64_t held_ = 0;
  uint64_t used_ = 0;
};

}  // namespace tenure::client
