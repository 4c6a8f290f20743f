#pragma once

#include "core/base/units.h"

namespace tenure {

// The state that a Segment is accounted under: the first that applies, in this order.
enum class Holding {
  kLost,         // its Device is gone
  kLoading,      // its Region is being filled
  kLeased,       // its Region has a live lease
  kQuarantined,  // a Session can still read its Region without a lease, and has not answered for it
  kIdle,         // its Region is Active, without a lease
  kRetained,     // its Region is Retained or Empty
};

// One arena at one moment. What is said of Regions holds of Pools in the runtime arena, where a
// Buffer that is live is leased, Segments on their way are loading, and a Pool is in quarantine as
// a whole. While loading, leased, quarantined or idle, the bytes of a Region that nobody asked for
// are `padding`:
//
//   capacity  = leased + loading + idle + retained + quarantined + padding + free + stranded
//   free      = cached + pooled + unbacked
//   allocated = leased + loading + idle + quarantined + padding
//   requested = leased + loading + idle + quarantined
struct Ledger {
  Bytes capacity;
  Bytes loading;
  Bytes leased;
  Bytes quarantined;
  Bytes idle;
  Bytes retained;
  Bytes padding;
  Bytes cached;    // held from the backend, nobody's
  Bytes pooled;    // in a live Pool and in no Buffer: its Session's at once, others' once recalled
  Bytes unbacked;  // not asked for yet
  // Nobody's, and still pinned by somebody: given out before the daemon's start, or given back to
  // the backend since.
  Bytes stranded;
  Bytes reserved;  // held from the backend
  Bytes lost;      // was capacity before the Device was lost
  // The largest request that would succeed now without reclaim.
  Bytes largest_free;

  Bytes requested() const { return loading + leased + quarantined + idle; }
  Bytes allocated() const { return requested() + padding; }
  Bytes free() const { return cached + pooled + unbacked; }
  // 1 - largest_free / free; 0 when nothing is free.
  double fragmentation_ratio() const;

  // Adds, or takes off again, a Region of `bytes` of which `requested` were asked for.
  void Add(Holding holding, Bytes bytes, Bytes requested);
  void Remove(Holding holding, Bytes bytes, Bytes requested);

  friend bool operator==(const Ledger&, const Ledger&) = default;

 private:
  Bytes& Of(Holding holding);
};

// The most that an arena has come to since start, or since it was asked to forget.
struct ArenaPeaks {
  Bytes reserved;
  Bytes allocated;
};

}  // namespace tenure
