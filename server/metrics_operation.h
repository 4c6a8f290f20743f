#pragma once

#include <prometheus/metric_family.h>
#include <vector>

#include "core/store/store.h"
#include "server/reload_log.h"

namespace tenure {

// What operators did: which devices are cordoned, and how the configuration was read anew.
void AddOperation(std::vector<prometheus::MetricFamily>& out, const Store& store,
                  const ReloadLog::Totals& reloads);

}  // namespace tenure
