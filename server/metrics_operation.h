#pragma once

#include "core/store/store.h"
#include "server/family_builder.h"
#include "server/reload_log.h"

namespace tenure {

// What operators did: which devices are cordoned, and how the configuration was read anew.
void AddOperation(MetricFamilies& out, const Store& store, const ReloadLog::Totals& reloads);

}  // namespace tenure
