#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <vector>

#include "core/store/store.h"
#include "server/planner.h"
#include "server/reload_log.h"
#include "server/rpc_metrics.h"
#include "server/session_registry.h"

namespace tenure {

struct MetricsOptions {
  bool model_bytes = false;  // tenure_model_bytes, whose label is what a client called its model
};

// Everything that /metrics tells, built at each scrape out of one snapshot of each Device, so that
// what is shown balances. All series exist from the first scrape on; no label takes a value that a
// client made up, but for tenure_model_bytes. A label that names something of the API is spelt as
// there. Thread-safe.
class Metrics final : public prometheus::Collectable {
 public:
  // All outlive the metrics.
  Metrics(const Store& store, const SessionRegistry& sessions, const RpcMetrics& rpcs,
          const ReloadLog& reloads, const Planner& planner, const MetricsOptions& options);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Store& store_;
  const SessionRegistry& sessions_;
  const RpcMetrics& rpcs_;
  const ReloadLog& reloads_;
  const Planner& planner_;
  const MetricsOptions options_;
};

}  // namespace tenure
