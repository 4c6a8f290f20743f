#include "server/device_snapshot.h"

namespace tenure {
namespace {

using prometheus::MetricType;

constexpr DeviceMetric kOfRuntime[] = {
    {"tenure_pools", "Live pools.", MetricType::Gauge,
     [](const DeviceSnapshot& each) { return each.runtime.pools; }},
    {"tenure_buffers", "Live buffers.", MetricType::Gauge,
     [](const DeviceSnapshot& each) { return each.runtime.buffers; }},
    {"tenure_buffer_requests_waiting", "Requests that wait for room.", MetricType::Gauge,
     [](const DeviceSnapshot& each) { return each.runtime.waiting; }},
    {"tenure_buffers_granted_total", "Buffers granted.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.runtime.counters.buffers_granted; }},
    {"tenure_buffers_released_total", "Buffers that their holders released.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.runtime.counters.buffers_released; }},
    {"tenure_pool_segments_granted_total",
     "Whole segments granted to sessions that divide them themselves.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.runtime.counters.segments_granted; }},
    {"tenure_pools_expired_total", "Pools whose lease expired.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.runtime.counters.pools_expired; }},
    {"tenure_pools_lost_total", "Pools that ended with their device.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.runtime.counters.pools_lost; }},
    {"tenure_pool_recalls_total", "Segments of pools wanted back.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.runtime.counters.recalls_sent; }},
    {"tenure_pool_recalls_unanswered_total", "Recalls of segments that were not answered in time.",
     MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.runtime.counters.recalls_unanswered; }},
};

}  // namespace

void AddRuntime(MetricFamilies& out, const DeviceSnapshots& snapshots) {
  AddDeviceMetrics(out, kOfRuntime, snapshots);
  FamilyBuilder waits("tenure_buffer_wait_duration_seconds",
                      "How long requests for buffers waited until they were granted.",
                      MetricType::Histogram);
  for (const DeviceSnapshot& each : snapshots) {
    waits.Add({{"device", each.device}}, each.runtime.counters.waits);
  }
  waits.MoveTo(out);
}

}  // namespace tenure
