#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/store/device_store.h"
#include "core/store/runtime_store.h"
#include "server/family_builder.h"

namespace tenure {

// What one scrape knows of a Device.
struct DeviceSnapshot {
  std::string device;
  std::string backend;
  std::string uuid;
  DeviceStore::Snapshot weights;
  RuntimeStore::Snapshot runtime;

  // Calls `visit` with the name of each arena and its store's snapshot.
  template <typename Visit>
  void ForEachArena(const Visit& visit) const {
    visit("weights", weights);
    visit("runtime", runtime);
  }
};
using DeviceSnapshots = std::vector<DeviceSnapshot>;

// A family with one series for each Device.
struct DeviceMetric {
  const char* name;
  const char* help;
  prometheus::MetricType type;
  uint64_t (*of)(const DeviceSnapshot& device);
};
void AddDeviceMetrics(MetricFamilies& out, std::span<const DeviceMetric> metrics,
                      const DeviceSnapshots& snapshots);

// The families of models, loads and leases. `refused` counts the loads that failed before a Device
// was asked, by reason.
void AddWeights(MetricFamilies& out, const DeviceSnapshots& snapshots,
                const std::map<std::string, uint64_t>& refused);

// Those of pools and buffers.
void AddRuntime(MetricFamilies& out, const DeviceSnapshots& snapshots);

// Requests for room that were refused, in both arenas.
void AddRefusals(MetricFamilies& out, const DeviceSnapshots& snapshots);

}  // namespace tenure
