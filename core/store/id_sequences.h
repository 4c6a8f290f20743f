#pragma once

#include "core/base/ids.h"
#include "core/store/share_export.h"

namespace tenure {

// Ids that are unique over all Devices.
struct IdSequences {
  IdSequence<RegionId> regions;
  IdSequence<LeaseId> leases;
  IdSequence<ShareSerial> shares;
  IdSequence<ExportId> exports;
  IdSequence<PoolId> pools;
  IdSequence<BufferId> buffers;
};

}  // namespace tenure
