#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/base/units.h"
#include "core/device/segment.h"

namespace tenure {

// The Segments of a Region that holds `size` bytes: as many standard ones as fit, then falling
// powers of two of the granule, so that less than one granule is wasted and every Segment's size is
// one of a few. REQUIRES: `segment_size` is a positive multiple of `granule`.
std::vector<Bytes> SegmentSizes(Bytes size, Bytes segment_size, Bytes granule);

struct SegmentArenaOptions {
  Bytes capacity;
  Bytes segment_size;
  Bytes granule;
  // Every Region is one Segment of its own size, for those who can pin only one range at a time.
  bool single_segment = false;
};

// The budget of one arena and the Segments that nobody uses: bytes are claimed here before
// memory exists, and Segments come back here before they go back to the backend. A Segment is
// either cached here, leaving (on its way back to the backend), or with whoever claimed it. What
// survivors of an earlier daemon still map, and what somebody still pins of Segments that were
// destroyed, is stranded: no memory is asked for in its place.
//
//   capacity = claimed + cached + leaving + stranded + unbacked
//
// Thread-compatible. Never creates or destroys a Segment itself: that waits, and is its caller's
// work.
class SegmentArena {
 public:
  // REQUIRES: `capacity` and `segment_size` are multiples of `granule`, `segment_size` positive.
  explicit SegmentArena(const SegmentArenaOptions& options);

  // Room for one Region, or for a Pool to grow. The caller destroys `evicted` first, reports
  // `spare` bytes of it with Left and the others with Destroyed, then creates a Segment for each
  // empty slot and reports it with Created; or gives everything back with Return, as it must if the
  // arena is overdrawn once it is known what of `evicted` is pinned.
  struct Claim {
    struct Slot {
      Bytes size;
      std::optional<Segment> segment;
    };
    std::vector<Slot> slots;  // in the order of the Region
    std::vector<Segment> evicted;
    Bytes spare;  // of `evicted`: more than the slots need, leaving
    Bytes bytes;  // sum of the slots' sizes

    // Of the empty slots, in their order.
    std::vector<Bytes> MissingSizes() const;
  };

  // Claims room for `size` bytes, out of the cache where sizes match. nullopt if
  // RegionBytes(size) > available().
  std::optional<Claim> ClaimRoom(Bytes size);

  // What a Region of `size` bytes takes: `size` rounded up to the granule.
  Bytes RegionBytes(Bytes size) const;

  // Takes back claimed Segments of a Region, and the part of the claim that never became memory.
  void Return(std::vector<Segment> segments, Bytes never_created, Instant now);

  void Created(Bytes size) {
    reserved_ += size;
    peak_reserved_ = std::max(peak_reserved_, reserved_);
  }
  void Destroyed(Bytes size) { reserved_ -= size; }

  // Claimed Segments of this size go back to the backend. The caller destroys them and then calls
  // Left; until then their bytes cannot be claimed.
  void Leave(Bytes size);
  // Takes out the Segments that have been cached since before `cutoff`; they leave likewise.
  std::vector<Segment> TakeCachedBefore(Instant cutoff);
  void Left(Bytes size);

  // What survivors say that they map, in all. Counts as far as there is room for it beside what is
  // claimed here.
  void SetSurviving(Bytes size) { surviving_ = size; }
  // What is pinned of the Segments that were destroyed, in all.
  void SetPinned(Bytes size) { pinned_ = size; }

  Bytes capacity() const { return options_.capacity; }
  Bytes claimed() const { return claimed_; }
  Bytes cached() const { return cached_; }
  Bytes leaving() const { return leaving_; }
  // How many Segments of each size are cached.
  std::map<Bytes, size_t> CachedSizes() const;
  Bytes stranded() const {
    return std::min(surviving_ + pinned_, capacity() - claimed_ - cached_ - leaving_);
  }
  Bytes unbacked() const { return capacity() - claimed_ - cached_ - leaving_ - stranded(); }
  // What could be claimed at once.
  Bytes available() const { return cached_ + unbacked(); }
  // True if there is no room for all that is claimed here beside what is pinned.
  bool overdrawn() const { return claimed_ + cached_ + leaving_ + pinned_ > capacity(); }
  // Held from the backend, by whomever; and the most of that since start or ForgetPeak.
  Bytes reserved() const { return reserved_; }
  Bytes peak_reserved() const { return peak_reserved_; }
  void ForgetPeak() { peak_reserved_ = reserved_; }
  uint64_t cached_segments() const;

  // CHECKs the equation and that the cache's sum is right.
  void Validate() const;

 private:
  struct CachedSegment {
    Segment segment;
    Instant since;
  };

  std::vector<Bytes> SizesFor(Bytes size) const;

  const SegmentArenaOptions options_;
  Bytes claimed_;
  Bytes cached_;
  Bytes leaving_;
  Bytes reserved_;
  Bytes peak_reserved_;
  Bytes surviving_;
  Bytes pinned_;
  // By size; within a size the one cached last is at the back, and is taken first.
  std::map<Bytes, std::deque<CachedSegment>> cache_;
};

}  // namespace tenure
