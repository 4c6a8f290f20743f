#pragma once

#include "server/device_snapshot.h"
#include "server/family_builder.h"
#include "server/reload_log.h"

namespace tenure {

// What operators did: which devices are cordoned, and how the configuration was read anew.
void AddOperation(MetricFamilies& out, const DeviceSnapshots& snapshots,
                  const ReloadLog::Totals& reloads);

}  // namespace tenure
