#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/arena/ledger.h"
#include "core/base/clock.h"
#include "core/base/content_id.h"
#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/device/segment.h"
#include "core/layout/layout.h"
#include "core/region/region_state.h"

namespace tenure {

// Weight memory of one model: an ordered list of whole Segments that clients map as one contiguous
// range. Its id never changes, nor does its Segment list once it was published.
//
// How Sessions use it is counted here; what the counts stand for is kept in the LeaseTable:
//   quarantined_shares <= shares
struct Region {
  RegionId id;
  Generation generation;
  RegionState state = RegionState::kLoading;
  std::shared_ptr<const Layout> layout;
  std::optional<ContentId> content;  // nullopt: unknown
  std::vector<Segment> segments;
  Bytes bytes;  // what the Region takes of the arena

  uint32_t leases = 0;              // live ones
  uint32_t shares = 0;              // Sessions that may have it mapped
  uint32_t quarantined_shares = 0;  // of these, those that have not answered for it
  uint32_t exports = 0;             // exports under way, which need the Segments to stay

  Instant unused_since = kNever;  // when the last lease ended or the model went offline
  Instant expires = kNever;       // when a Retained or Empty Region's TTL is over

  // What the ledger accounts it under. REQUIRES: not Freed.
  Holding holding() const;

  bool quarantined() const { return quarantined_shares > 0; }
  // True if nobody owns it and nobody may read it without asking first: another model may take it
  // in place, and once its idle Shares are answered for, its memory may go back to the arena.
  bool disposable() const;
};

}  // namespace tenure
