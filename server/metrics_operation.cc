#include "server/metrics_operation.h"

namespace tenure {

using prometheus::MetricType;

void AddOperation(MetricFamilies& out, const Store& store, const ReloadLog::Totals& reloads) {
  FamilyBuilder cordoned("tenure_device_cordoned",
                         "1 while the device takes no new models and pools, on an operator's word.",
                         MetricType::Gauge);
  for (const auto& runtime : store.runtimes()) {
    cordoned.Add({{"device", runtime->device_info().name}},
                 uint64_t{runtime->cordoned() ? 1U : 0U});
  }
  cordoned.MoveTo(out);

  FamilyBuilder totals("tenure_config_reloads_total", "How often the configuration was read anew.",
                       MetricType::Counter);
  totals.Add({{"result", "ok"}}, reloads.ok);
  totals.Add({{"result", "failed"}}, reloads.failed);
  totals.MoveTo(out);

  FamilyBuilder successful("tenure_config_last_reload_successful",
                           "1 if the configuration in force is the one that was read last.",
                           MetricType::Gauge);
  successful.Add({}, uint64_t{reloads.last_ok ? 1U : 0U});
  successful.MoveTo(out);

  FamilyBuilder time("tenure_config_last_reload_timestamp_seconds",
                     "When the configuration was read last, in seconds since 1970.",
                     MetricType::Gauge);
  time.Add({}, reloads.last_time);
  time.MoveTo(out);
}

}  // namespace tenure
