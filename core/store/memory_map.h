#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/arena/ledger.h"
#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/device/device.h"
#include "core/layout/layout.h"
#include "core/region/region_state.h"
#include "core/runtime/pool_map.h"
#include "core/store/counters.h"
#include "core/store/session.h"

namespace tenure {

// Segments of one size, side by side or cached.
struct SegmentRun {
  Bytes size;
  size_t count = 0;
};

// One Region at one moment, with the model that it belongs to.
struct RegionMap {
  struct Hold {
    SessionId session;
    uint32_t leases = 0;
    bool shared = false;  // it may have the Region mapped
    bool quarantined = false;
    std::optional<Duration> expires_in;  // the last of its leases, unless renewed
  };

  RegionId id;
  std::string model;
  Revision revision;
  bool pinned = false;
  RegionState state = RegionState::kLoading;
  Holding holding = Holding::kLoading;  // what the ledger accounts it under
  Generation generation;
  std::shared_ptr<const Layout> layout;
  Bytes bytes;                         // what it takes of the arena
  std::vector<SegmentRun> segments;    // in their order; those that exist
  std::optional<Duration> expires_in;  // its TTL, where that is running
  std::vector<Hold> holds;
};

using Identities = std::map<SessionId, SessionIdentity>;

// A Device's weights at one moment: the Regions add up to the ledger's sums, which they are told
// with.
struct WeightsMap {
  Ledger ledger;
  std::vector<RegionMap> regions;  // by id
  std::vector<SegmentRun> cached;  // by size
  Bytes leaving;                   // of the ledger's `cached`, on its way back to the backend
  Bytes foreign;                   // of the Device, used by others
  Status lost;
  StoreCounters counters;
  Identities sessions;  // those that hold something
};

// Its runtime memory, likewise.
struct RuntimeMap {
  Ledger ledger;
  std::vector<PoolMap> pools;  // by id
  std::vector<SegmentRun> cached;
  Bytes leaving;
  uint64_t buffers_granted = 0;  // since start, likewise
  uint64_t buffers_released = 0;
  uint64_t waiting = 0;  // requests that wait for room
  Instant taken;         // what the Pools' instants are to be compared with
  Identities sessions;
};

}  // namespace tenure
