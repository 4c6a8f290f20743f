#pragma once

#include "server/family_builder.h"

namespace tenure {

// What the kernel tells of this process, under the names that Prometheus' own client libraries use.
void AddProcess(MetricFamilies& out);

}  // namespace tenure
