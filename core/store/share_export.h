#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "core/lease/lease_table.h"

namespace tenure {

// One export of some Segments for one Session; see DeviceStore::BeginExport.
using ExportId = StrongId<struct ExportTag>;

// A batch of a Region's Segments on their way to a client.
struct ShareExport {
  Share share;
  uint32_t segment_count = 0;  // of the Region
  std::vector<Bytes> sizes;    // of the Segments in `fds`
  std::vector<UniqueFd> fds;
};

// A batch of a Pool's Segments, likewise.
struct PoolExport {
  struct Entry {
    Bytes offset;
    ShareSerial share;
    Bytes size;
  };
  PoolId pool;
  std::vector<Entry> segments;
  std::vector<UniqueFd> fds;  // of each
};

using ExportedBatch = std::variant<ShareExport, PoolExport>;

}  // namespace tenure
