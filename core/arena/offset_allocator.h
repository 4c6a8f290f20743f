#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/base/units.h"

namespace tenure {

// Hands out Blocks of ranges of offsets. There is no memory behind it: all that it knows lies in
// tables of its own, 32 bytes for each block and each hole, which grow to the most that there ever
// were and are used again. A hole is a maximal free range.
//
// Two-level segregated fit (Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator
// for real-time systems", ECRTS 2004). Holes lie in bins by size: 32 bins for each power of two,
// one for each size below 16 KiB. Two levels of bitmaps find the smallest bin all of whose holes
// surely fit; a freed block joins the holes beside it at once. Allocate, Free and Split take
// constant time, except for an Allocate that no bin surely fits: before it answers nullopt it looks
// at every hole that is at least as large as what is asked.
//
// Invariants: blocks and holes lie within the managed ranges, no two overlap, no two holes touch,
// and
//
//   managed = used + free, free = sum of the holes
//
// Thread-compatible; usage() counts as a change, for it remembers the largest hole.
class OffsetAllocator {
 public:
  // Offset and size of every block are multiples of it.
  static constexpr Bytes kGranule = Bytes(256);

  struct Block {
    Bytes offset;
    Bytes size;     // what was asked, rounded up to the granule
    uint32_t node;  // its row in the table: its name until it is freed, then perhaps another's

    friend bool operator==(const Block&, const Block&) = default;
  };

  struct Usage {
    Bytes used;
    Bytes free;
    Bytes largest_free;  // Allocate(largest_free, kGranule) would succeed

    friend bool operator==(const Usage&, const Usage&) = default;
  };

  OffsetAllocator();

  // Manages `range` too, which is free. Blocks may span what was added at different times where it
  // touches, but never a gap. REQUIRES: `range` is not empty, begins and ends at multiples of the
  // granule, and overlaps nothing that is managed.
  void Add(Range range);
  // Manages `range` no more. Looks at the holes that are at least as large. REQUIRES: `range` is
  // not empty, begins and ends at multiples of the granule, and is managed and wholly free.
  void Remove(Range range);

  // A block of `size` bytes whose offset is a multiple of `alignment`; nullopt if no hole has room
  // for it. Takes the front of the hole; what lies before the first aligned offset in it stays
  // free. The hole is one of the smallest bin that surely fits, unless one of the first few holes
  // in the bin of the request's own size happens to fit. REQUIRES: `size` is not zero, `alignment`
  // is a power of two.
  std::optional<Block> Allocate(Bytes size, Bytes alignment = kGranule);
  // REQUIRES: `block` is live, as Allocate or Split left it.
  void Free(const Block& block);
  // Shortens `block` to its first `first_size` bytes and makes the others a block of its own, which
  // it returns. REQUIRES: `block` is live, `first_size` is a multiple of the granule, not zero and
  // less than the block's size.
  Block Split(Block& block, Bytes first_size);

  // Shows every hole of at least `at_least` bytes, in no order. `visit` must not use the allocator.
  void ForEachFree(Bytes at_least, const std::function<void(Range)>& visit) const;
  // Constant time, except that it may look at the holes that are at most 1/32 smaller than the
  // largest one when the last of the largest size has gone since it was asked last.
  Usage usage() const;

  // CHECKs the invariants, and that the lists, bins, bitmaps and sums agree. Linear.
  void Validate() const;

 private:
  // A block, a hole or a spare row of the table. Its neighbours are those by offset, whether they
  // touch it or not; the links are those of its bin, for a spare row those of the spare rows.
  struct alignas(32) Node {
    Bytes offset;
    Bytes size;
    uint32_t before;
    uint32_t after;
    uint32_t previous;  // kUsed for a block, kSpare for a spare row
    uint32_t next;

    Bytes end() const { return offset + size; }
  };

  // Row 0 stands before the first node and after the last one, and ends the lists.
  static constexpr uint32_t kEdge = 0;
  static constexpr uint32_t kSpare = UINT32_MAX;
  static constexpr uint32_t kUsed = UINT32_MAX - 1;
  static constexpr uint32_t kMostRows = UINT32_MAX - 1;

  // A size has up to 56 bits in granules: the first level is for sizes of up to 5 bits, each
  // further one for one bit more, and the last holds nothing, for searches that begin beyond all
  // bins.
  static constexpr uint32_t kBinsPerLevel = 32;
  static constexpr uint32_t kLevels = 1 + (56 - 5) + 1;
  static constexpr uint32_t kNoBin = kLevels * kBinsPerLevel;

  static uint32_t BinOf(Bytes size);
  static uint32_t FirstSureBin(Bytes size);
  // The first bin from `bin` on that holds something, or kNoBin.
  uint32_t FirstBinFrom(uint32_t bin) const;
  uint32_t LastBin() const;

  bool IsHole(uint32_t node) const { return nodes_[node].previous < kUsed; }
  bool IsLive(const Block& block) const;
  // True if nothing lies between two neighbours.
  bool Touch(uint32_t node, uint32_t after) const {
    return nodes_[node].end() == nodes_[after].offset;
  }

  // Puts a node of `range` between two neighbours. It is neither block nor hole yet.
  uint32_t NewNode(Range range, uint32_t before, uint32_t after);
  // Takes `node` out from between its neighbours, and spares it.
  void Drop(uint32_t node);
  // Leaves the first `size` bytes to `node` and makes the others a node after it.
  uint32_t Cut(uint32_t node, Bytes size);
  // Makes `node` a hole, joined with the holes that touch it.
  void MakeHole(uint32_t node);
  void Bin(uint32_t node);
  void Unbin(uint32_t node);

  // The offset in hole `node` at which a block fits; nullopt if it does not.
  std::optional<Bytes> Fit(uint32_t node, Bytes size, Bytes alignment) const;
  uint32_t FindHole(Bytes size, Bytes alignment) const;
  uint32_t FindHoleAround(Range range) const;

  void ValidateNeighbours() const;
  void ValidateBins() const;

  std::vector<Node> nodes_;
  uint32_t spare_ = kEdge;  // the first spare row
  // Of each span, a maximal managed range: where it begins, and its first node. That node stays the
  // first: who joins its successor or is cut stays in front.
  std::map<Bytes, uint32_t> spans_;

  std::array<uint32_t, kNoBin> bins_{};         // the first hole of each, kEdge if there is none
  uint64_t levels_ = 0;                         // a bit for each level that holds something
  std::array<uint32_t, kLevels> level_bins_{};  // per level a bit for each such bin

  Bytes used_;
  Bytes free_;
  // No hole is larger, and so many are as large. Zero of them: what is largest is not known.
  mutable Bytes largest_;
  mutable uint64_t largest_count_ = 0;
};

}  // namespace tenure
