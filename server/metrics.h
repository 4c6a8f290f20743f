#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <vector>

#include "core/store/store.h"
#include "server/reload_log.h"
#include "server/session_registry.h"

namespace tenure {

// Everything that /metrics tells, built at each scrape out of one snapshot of each Device, so that
// what is shown balances. All series exist from the first scrape on; no label takes a value that a
// client made up. A label that names something of the API is spelt as there. Thread-safe.
class Metrics final : public prometheus::Collectable {
 public:
  // All outlive the metrics. The process counts as started now.
  Metrics(const Store& store, const SessionRegistry& sessions, const ReloadLog& reloads);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Store& store_;
  const SessionRegistry& sessions_;
  const ReloadLog& reloads_;
  const double start_time_;  // seconds since 1970
};

}  // namespace tenure
