#include "server/metrics_operation.h"

#include <string>
#include <utility>

namespace tenure {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Family(std::string name, std::string help, MetricType type) {
  MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

void Add(MetricFamily& family, std::vector<ClientMetric::Label> labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

}  // namespace

void AddOperation(std::vector<MetricFamily>& out, const Store& store,
                  const ReloadLog::Totals& reloads) {
  MetricFamily cordoned =
      Family("tenure_device_cordoned",
             "1 while the device takes no new models and pools, on an operator's word.",
             MetricType::Gauge);
  for (const auto& runtime : store.runtimes()) {
    Add(cordoned, {{"device", runtime->device_info().name}}, runtime->cordoned() ? 1 : 0);
  }
  out.push_back(std::move(cordoned));

  MetricFamily totals = Family("tenure_config_reloads_total",
                               "How often the configuration was read anew.", MetricType::Counter);
  Add(totals, {{"result", "ok"}}, static_cast<double>(reloads.ok));
  Add(totals, {{"result", "failed"}}, static_cast<double>(reloads.failed));
  out.push_back(std::move(totals));

  MetricFamily successful =
      Family("tenure_config_last_reload_successful",
             "1 if the configuration in force is the one that was read last.", MetricType::Gauge);
  Add(successful, {}, reloads.last_ok ? 1 : 0);
  out.push_back(std::move(successful));

  MetricFamily time =
      Family("tenure_config_last_reload_timestamp_seconds",
             "When the configuration was read last, in seconds since 1970.", MetricType::Gauge);
  Add(time, {}, reloads.last_time);
  out.push_back(std::move(time));
}

}  // namespace tenure
