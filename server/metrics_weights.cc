#include <algorithm>
#include <string>
#include <string_view>

#include "core/region/region_state.h"
#include "server/device_snapshot.h"

namespace tenure {
namespace {

using prometheus::MetricType;

constexpr DeviceMetric kOfWeights[] = {
    {"tenure_load_queue_length", "Loads that wait for their turn.", MetricType::Gauge,
     [](const DeviceSnapshot& each) { return each.weights.queued_loads; }},
    {"tenure_loads_running", "Loads that have their turn.", MetricType::Gauge,
     [](const DeviceSnapshot& each) { return each.weights.running_loads; }},
    {"tenure_ownership_transfers_total",
     "Loads that took over the region of a model of the same architecture, in place.",
     MetricType::Counter,
     [](const DeviceSnapshot& each) {
       return each.weights.counters.loads[static_cast<size_t>(Reuse::kAdopted)];
     }},
    {"tenure_leases", "Live leases on weights.", MetricType::Gauge,
     [](const DeviceSnapshot& each) { return each.weights.live_leases; }},
    {"tenure_leases_granted_total", "Leases granted.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.weights.counters.leases_granted; }},
    {"tenure_leases_released_total", "Leases that their holders released.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.weights.counters.leases_released; }},
    {"tenure_leases_expired_total", "Leases that expired.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.weights.counters.leases_expired; }},
    {"tenure_leases_lost_total", "Leases that ended with their device.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.weights.counters.leases_lost; }},
    {"tenure_recalls_total", "Shares that were wanted back.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.weights.counters.recalls_sent; }},
    {"tenure_recalls_unanswered_total", "Recalls that were not answered in time.",
     MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.weights.counters.recalls_unanswered; }},
};

void AddModels(MetricFamilies& out, const DeviceSnapshots& snapshots) {
  FamilyBuilder models("tenure_models", "Models of which memory is held.", MetricType::Gauge);
  for (const DeviceSnapshot& each : snapshots) {
    for (size_t i = 0; i < kRegionStates; ++i) {
      const auto state = static_cast<RegionState>(i);
      if (state == RegionState::kFreed) continue;
      models.Add({{"device", each.device}, {"state", std::string(RegionStateName(state))}},
                 each.weights.models[i]);
    }
  }
  models.MoveTo(out);
}

// What a store counts failures under: its reasons, and INTERNAL for an error without one.
std::vector<std::string> FailureReasons() {
  std::vector<std::string> reasons = {"INTERNAL"};
  for (const Reason reason : kAllReasons) reasons.emplace_back(ReasonName(reason));
  return reasons;
}

uint64_t CountOf(const std::map<std::string, uint64_t>& by_reason, std::string_view reason) {
  const auto count = by_reason.find(std::string(reason));
  return count == by_reason.end() ? 0 : count->second;
}

// Adds a series for each reason, and one for their sum to `loads`.
void AddFailures(FamilyBuilder& loads, FamilyBuilder& failures, const std::string& device,
                 const std::map<std::string, uint64_t>& by_reason) {
  uint64_t failed = 0;
  for (const std::string& reason : FailureReasons()) {
    const uint64_t of_reason = CountOf(by_reason, reason);
    failures.Add({{"device", device}, {"reason", reason}}, of_reason);
    failed += of_reason;
  }
  loads.Add({{"device", device}, {"reuse", "NONE"}, {"result", "failed"}}, failed);
}

void AddLoads(MetricFamilies& out, const DeviceSnapshots& snapshots,
              const std::map<std::string, uint64_t>& refused) {
  FamilyBuilder loads("tenure_loads_total", "Loads that ended; one that failed has no reuse.",
                      MetricType::Counter);
  FamilyBuilder failures("tenure_load_failures_total",
                         "Loads that failed, by reason; device `none`: before a device was asked.",
                         MetricType::Counter);
  FamilyBuilder durations("tenure_load_duration_seconds",
                          "From taking the call to the model being leasable, of loads that"
                          " succeeded.",
                          MetricType::Histogram);
  FamilyBuilder phases("tenure_load_phase_duration_seconds",
                       "What of that each phase took, of loads that copied.",
                       MetricType::Histogram);
  FamilyBuilder copied("tenure_copied_bytes_total", "Payload bytes copied into regions, by source.",
                       MetricType::Counter);
  FamilyBuilder reclaims("tenure_reclaims_total", "Retained regions whose memory was taken back.",
                         MetricType::Counter);
  for (const DeviceSnapshot& each : snapshots) {
    const std::string& device = each.device;
    const StoreCounters& counters = each.weights.counters;
    for (size_t i = 0; i < kReuses; ++i) {
      const std::string reuse(ReuseName(static_cast<Reuse>(i)));
      loads.Add({{"device", device}, {"reuse", reuse}, {"result", "ok"}}, counters.loads[i]);
      durations.Add({{"device", device}, {"reuse", reuse}}, counters.load_durations[i]);
    }
    AddFailures(loads, failures, device, counters.failed_loads);
    for (size_t i = 0; i < kLoadPhases.size(); ++i) {
      phases.Add({{"device", device}, {"phase", kLoadPhases[i].first}},
                 counters.phase_durations[i]);
    }
    copied.Add({{"device", device}, {"source", "file"}}, counters.copied_bytes);
    for (size_t i = 0; i < kReclaimCauses; ++i) {
      const std::string cause(ReclaimCauseName(static_cast<ReclaimCause>(i)));
      reclaims.Add({{"device", device}, {"cause", cause}}, counters.reclaims[i]);
    }
  }
  AddFailures(loads, failures, "none", refused);
  for (FamilyBuilder* family : {&loads, &failures, &durations, &phases, &copied, &reclaims}) {
    family->MoveTo(out);
  }
}

}  // namespace

void AddWeights(MetricFamilies& out, const DeviceSnapshots& snapshots,
                const std::map<std::string, uint64_t>& refused) {
  AddModels(out, snapshots);
  AddLoads(out, snapshots, refused);
  AddDeviceMetrics(out, kOfWeights, snapshots);
}

void AddRefusals(MetricFamilies& out, const DeviceSnapshots& snapshots) {
  FamilyBuilder refusals("tenure_refusals_total",
                         "Requests for room that were refused, by reason: loads in the weights"
                         " arena, buffers and segments of pools in the runtime arena.",
                         MetricType::Counter);
  for (const DeviceSnapshot& each : snapshots) {
    for (const Reason reason : kAllReasons) {
      if (Error(reason, "").code() != absl::StatusCode::kResourceExhausted) continue;
      const std::string name(ReasonName(reason));
      const auto add = [&](const char* arena, const std::map<std::string, uint64_t>& by_reason) {
        refusals.Add({{"device", each.device}, {"arena", arena}, {"reason", name}},
                     CountOf(by_reason, name));
      };
      add("weights", each.weights.counters.failed_loads);
      add("runtime", each.runtime.counters.refusals);
    }
  }
  refusals.MoveTo(out);
}

}  // namespace tenure
