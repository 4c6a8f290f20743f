#include "server/metrics_operation.h"

namespace tenure {
namespace {

using prometheus::MetricType;

constexpr DeviceMetric kOfDevices[] = {
    {"tenure_device_cordoned",
     "1 while the device takes no new models and pools, on an operator's word.", MetricType::Gauge,
     [](const DeviceSnapshot& device) { return uint64_t{device.weights.cordoned}; }},
};

}  // namespace

void AddOperation(MetricFamilies& out, const DeviceSnapshots& snapshots,
                  const ReloadLog::Totals& reloads) {
  AddDeviceMetrics(out, kOfDevices, snapshots);
  FamilyBuilder totals("tenure_config_reloads_total", "How often the configuration was read anew.",
                       MetricType::Counter);
  totals.Add({{"result", "ok"}}, reloads.ok);
  totals.Add({{"result", "failed"}}, reloads.failed);
  totals.MoveTo(out);
  FamilyBuilder successful("tenure_config_last_reload_successful",
                           "1 if the configuration in force is the one that was read last.",
                           MetricType::Gauge);
  successful.Add({}, reloads.last_ok ? 1.0 : 0.0);
  successful.MoveTo(out);
  FamilyBuilder time("tenure_config_last_reload_timestamp_seconds",
                     "When the configuration was read last, in seconds since 1970.",
                     MetricType::Gauge);
  time.Add({}, reloads.last_time);
  time.MoveTo(out);
}

}  // namespace tenure
