#include "server/metrics.h"

#include <array>
#include <chrono>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "core/region/region_state.h"
#include "server/metrics_operation.h"

namespace tenure {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// Gathers one family.
class Family {
 public:
  Family(std::string name, std::string help, MetricType type) {
    family_.name = std::move(name);
    family_.help = std::move(help);
    family_.type = type;
  }

  void Add(Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    family_.metric.push_back(std::move(metric));
  }
  void Add(Labels labels, uint64_t value) { Add(std::move(labels), static_cast<double>(value)); }
  void Add(Labels labels, Bytes value) { Add(std::move(labels), value.count()); }

  void Add(Labels labels, const DurationHistogram& durations) {
    ClientMetric metric;
    metric.label = std::move(labels);
    uint64_t count = 0;
    for (size_t bucket = 0; bucket < durations.counts.size(); ++bucket) {
      count += durations.counts[bucket];
      const bool bounded = bucket < DurationHistogram::kBounds.size();
      metric.histogram.bucket.push_back({count, bounded ? DurationHistogram::kBounds[bucket]
                                                        : std::numeric_limits<double>::infinity()});
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = durations.sum_seconds;
    family_.metric.push_back(std::move(metric));
  }

  MetricFamily Take() { return std::move(family_); }

 private:
  MetricFamily family_;
};

struct DeviceSnapshot {
  std::string device;
  DeviceStore::Snapshot now;
  RuntimeStore::Snapshot runtime;

  // Its arenas, by name.
  std::array<std::pair<const char*, const Ledger&>, 2> arenas() const {
    return {{{"weights", now.ledger}, {"runtime", runtime.ledger}}};
  }
};
using Snapshots = std::vector<DeviceSnapshot>;
using Families = std::vector<MetricFamily>;

std::string Text(std::string_view text) { return std::string(text); }

// One family with one series for each Device, whose value `of` takes out of its snapshot.
template <typename Of>
void AddPerDevice(Families& out, const Snapshots& snapshots, const char* name, const char* help,
                  MetricType type, Of of) {
  Family family(name, help, type);
  for (const DeviceSnapshot& each : snapshots) family.Add({{"device", each.device}}, of(each.now));
  out.push_back(family.Take());
}

// The same, with the arena as a second label.
template <typename Of>
void AddPerArena(Families& out, const Snapshots& snapshots, const char* name, const char* help,
                 Of of) {
  Family family(name, help, MetricType::Gauge);
  for (const DeviceSnapshot& each : snapshots) {
    for (const auto& [arena, ledger] : each.arenas()) {
      family.Add({{"device", each.device}, {"arena", arena}}, of(ledger));
    }
  }
  out.push_back(family.Take());
}

void AddLedger(Families& out, const Snapshots& snapshots) {
  Family memory(
      "tenure_memory_bytes",
      "What an arena's capacity is used for; the states add up to it. Stranded: given up by the "
      "daemon or an earlier one, and still mapped or kept open by somebody.",
      MetricType::Gauge);
  for (const DeviceSnapshot& each : snapshots) {
    for (const auto& [arena, ledger] : each.arenas()) {
      const std::pair<const char*, Bytes> states[] = {{"leased", ledger.leased},
                                                      {"loading", ledger.loading},
                                                      {"idle", ledger.idle},
                                                      {"retained", ledger.retained},
                                                      {"quarantined", ledger.quarantined},
                                                      {"padding", ledger.padding},
                                                      {"cached", ledger.cached},
                                                      {"pooled", ledger.pooled},
                                                      {"unbacked", ledger.unbacked},
                                                      {"stranded", ledger.stranded}};
      for (const auto& [state, bytes] : states) {
        memory.Add({{"device", each.device}, {"arena", arena}, {"state", state}}, bytes);
      }
    }
  }
  out.push_back(memory.Take());

  AddPerArena(out, snapshots, "tenure_arena_capacity_bytes", "What the arena may hold.",
              [](const Ledger& ledger) { return ledger.capacity; });
  AddPerArena(out, snapshots, "tenure_arena_reserved_bytes", "Held from the backend.",
              [](const Ledger& ledger) { return ledger.reserved; });
  AddPerArena(out, snapshots, "tenure_arena_allocated_bytes",
              "In buffers, and in regions that are leased, loading, idle or quarantined; padding "
              "included.",
              [](const Ledger& ledger) { return ledger.allocated(); });
  AddPerArena(out, snapshots, "tenure_arena_requested_bytes",
              "Of the allocated bytes, what callers asked for.",
              [](const Ledger& ledger) { return ledger.requested(); });
  AddPerArena(out, snapshots, "tenure_arena_largest_free_bytes",
              "The largest request that would succeed now without reclaiming anything.",
              [](const Ledger& ledger) { return ledger.largest_free; });
  AddPerArena(out, snapshots, "tenure_arena_lost_bytes", "Was capacity before the device was lost.",
              [](const Ledger& ledger) { return ledger.lost; });
  AddPerArena(out, snapshots, "tenure_arena_fragmentation_ratio",
              "1 - largest free / free; 0 when nothing is free.",
              [](const Ledger& ledger) { return ledger.fragmentation_ratio(); });
}

void AddModels(Families& out, const Snapshots& snapshots) {
  Family models("tenure_models", "Models of which memory is held.", MetricType::Gauge);
  for (const DeviceSnapshot& each : snapshots) {
    for (size_t i = 0; i < kRegionStates; ++i) {
      const auto state = static_cast<RegionState>(i);
      if (state == RegionState::kFreed) continue;
      models.Add({{"device", each.device}, {"state", Text(RegionStateName(state))}},
                 each.now.models[i]);
    }
  }
  out.push_back(models.Take());
}

// What the store counts failed loads under: its reasons, and INTERNAL for an error without one.
std::vector<std::string> FailureReasons() {
  std::vector<std::string> reasons = {"INTERNAL"};
  for (const Reason reason : kAllReasons) reasons.push_back(Text(ReasonName(reason)));
  return reasons;
}

// Adds a series for each reason, and one for their sum to `loads`.
void AddFailures(Family& loads, Family& failures, const std::string& device,
                 const std::map<std::string, uint64_t>& by_reason) {
  uint64_t failed = 0;
  for (const std::string& reason : FailureReasons()) {
    const auto count = by_reason.find(reason);
    const uint64_t of_reason = count == by_reason.end() ? 0 : count->second;
    failures.Add({{"device", device}, {"reason", reason}}, of_reason);
    failed += of_reason;
  }
  loads.Add({{"device", device}, {"reuse", "NONE"}, {"result", "failed"}}, failed);
}

void AddLoads(Families& out, const Snapshots& snapshots,
              const std::map<std::string, uint64_t>& refused) {
  Family loads("tenure_loads_total", "Loads that ended; one that failed has no reuse.",
               MetricType::Counter);
  Family failures("tenure_load_failures_total",
                  "Loads that failed, by reason; device `none`: before a device was asked.",
                  MetricType::Counter);
  Family durations("tenure_load_duration_seconds",
                   "From taking the call to the model being leasable, of loads that succeeded.",
                   MetricType::Histogram);
  for (const auto& [device, now, runtime] : snapshots) {
    for (size_t i = 0; i < kReuses; ++i) {
      const std::string reuse = Text(ReuseName(static_cast<Reuse>(i)));
      loads.Add({{"device", device}, {"reuse", reuse}, {"result", "ok"}}, now.counters.loads[i]);
      durations.Add({{"device", device}, {"reuse", reuse}}, now.counters.load_durations[i]);
    }
    AddFailures(loads, failures, device, now.counters.failed_loads);
  }
  AddFailures(loads, failures, "none", refused);
  out.push_back(loads.Take());
  out.push_back(failures.Take());
  out.push_back(durations.Take());

  AddPerDevice(out, snapshots, "tenure_copied_bytes_total", "Payload bytes copied into regions.",
               MetricType::Counter, [](const auto& now) { return now.counters.copied_bytes; });

  Family reclaims("tenure_reclaims_total", "Retained regions whose memory was taken back.",
                  MetricType::Counter);
  for (const auto& [device, now, runtime] : snapshots) {
    for (size_t i = 0; i < kReclaimCauses; ++i) {
      const std::string cause = Text(ReclaimCauseName(static_cast<ReclaimCause>(i)));
      reclaims.Add({{"device", device}, {"cause", cause}}, now.counters.reclaims[i]);
    }
  }
  out.push_back(reclaims.Take());
}

void AddLeases(Families& out, const Snapshots& snapshots) {
  AddPerDevice(out, snapshots, "tenure_leases", "Live leases.", MetricType::Gauge,
               [](const auto& now) { return now.live_leases; });
  AddPerDevice(out, snapshots, "tenure_leases_granted_total", "Leases granted.",
               MetricType::Counter, [](const auto& now) { return now.counters.leases_granted; });
  AddPerDevice(out, snapshots, "tenure_leases_released_total",
               "Leases that their holders released.", MetricType::Counter,
               [](const auto& now) { return now.counters.leases_released; });
  AddPerDevice(out, snapshots, "tenure_leases_expired_total", "Leases that expired.",
               MetricType::Counter, [](const auto& now) { return now.counters.leases_expired; });
  AddPerDevice(out, snapshots, "tenure_leases_lost_total", "Leases that ended with their device.",
               MetricType::Counter, [](const auto& now) { return now.counters.leases_lost; });
  AddPerDevice(out, snapshots, "tenure_recalls_total", "Shares that were wanted back.",
               MetricType::Counter, [](const auto& now) { return now.counters.recalls_sent; });
  AddPerDevice(out, snapshots, "tenure_recalls_unanswered_total",
               "Recalls that were not answered in time.", MetricType::Counter,
               [](const auto& now) { return now.counters.recalls_unanswered; });
}

// One family with one series for each Device, whose value `of` takes out of its runtime arena.
template <typename Of>
void AddRuntime(Families& out, const Snapshots& snapshots, const char* name, const char* help,
                MetricType type, Of of) {
  Family family(name, help, type);
  for (const DeviceSnapshot& each : snapshots) {
    family.Add({{"device", each.device}}, of(each.runtime));
  }
  out.push_back(family.Take());
}

void AddBuffers(Families& out, const Snapshots& snapshots) {
  using Runtime = RuntimeStore::Snapshot;
  AddRuntime(out, snapshots, "tenure_pools", "Live pools.", MetricType::Gauge,
             [](const Runtime& now) { return now.pools; });
  AddRuntime(out, snapshots, "tenure_buffers", "Live buffers.", MetricType::Gauge,
             [](const Runtime& now) { return now.buffers; });
  AddRuntime(out, snapshots, "tenure_buffer_requests_waiting", "Requests that wait for room.",
             MetricType::Gauge, [](const Runtime& now) { return now.waiting; });
  AddRuntime(out, snapshots, "tenure_buffers_granted_total", "Buffers granted.",
             MetricType::Counter, [](const Runtime& now) { return now.counters.buffers_granted; });
  AddRuntime(out, snapshots, "tenure_buffers_released_total",
             "Buffers that their holders released.", MetricType::Counter,
             [](const Runtime& now) { return now.counters.buffers_released; });
  AddRuntime(out, snapshots, "tenure_pool_segments_granted_total",
             "Whole segments granted to sessions that divide them themselves.", MetricType::Counter,
             [](const Runtime& now) { return now.counters.segments_granted; });
  AddRuntime(out, snapshots, "tenure_pools_expired_total", "Pools whose lease expired.",
             MetricType::Counter, [](const Runtime& now) { return now.counters.pools_expired; });
  AddRuntime(out, snapshots, "tenure_pools_lost_total", "Pools that ended with their device.",
             MetricType::Counter, [](const Runtime& now) { return now.counters.pools_lost; });
  AddRuntime(out, snapshots, "tenure_pool_recalls_total", "Segments of pools wanted back.",
             MetricType::Counter, [](const Runtime& now) { return now.counters.recalls_sent; });
  AddRuntime(out, snapshots, "tenure_pool_recalls_unanswered_total",
             "Recalls of segments that were not answered in time.", MetricType::Counter,
             [](const Runtime& now) { return now.counters.recalls_unanswered; });

  Family refusals("tenure_buffer_refusals_total", "Requests that were refused, by reason.",
                  MetricType::Counter);
  for (const DeviceSnapshot& each : snapshots) {
    for (const std::string& reason : FailureReasons()) {
      const auto count = each.runtime.counters.refusals.find(reason);
      const bool any = count != each.runtime.counters.refusals.end();
      refusals.Add({{"device", each.device}, {"reason", reason}}, any ? count->second : 0);
    }
  }
  out.push_back(refusals.Take());
}

void AddBackend(Families& out, const Snapshots& snapshots) {
  AddPerDevice(out, snapshots, "tenure_device_foreign_bytes",
               "Of the device, used by others, as the driver says.", MetricType::Gauge,
               [](const auto& now) { return now.foreign.count(); });
  AddPerDevice(out, snapshots, "tenure_device_lost", "1 once the device does not serve any more.",
               MetricType::Gauge,
               [](const auto& now) { return uint64_t{now.lost.ok() ? 0U : 1U}; });
  AddPerDevice(out, snapshots, "tenure_backend_segments_created_total",
               "Segments taken from the backend.", MetricType::Counter,
               [](const auto& now) { return now.backend.segments_created; });
  AddPerDevice(out, snapshots, "tenure_backend_segments_destroyed_total",
               "Segments given back to the backend.", MetricType::Counter,
               [](const auto& now) { return now.backend.segments_destroyed; });
  AddPerDevice(out, snapshots, "tenure_backend_exports_total", "Segments exported as an fd.",
               MetricType::Counter, [](const auto& now) { return now.backend.exports; });
}

void AddSessions(Families& out, const SessionRegistry& sessions) {
  Family states("tenure_sessions", "Sessions whose process has not ended.", MetricType::Gauge);
  const auto counts = sessions.CountByState();
  constexpr std::array<const char*, counts.size()> kNames = {"LIVE", "DEAF", "GONE"};
  for (size_t i = 0; i < counts.size(); ++i) {
    states.Add({{"state", kNames[i]}}, static_cast<uint64_t>(counts[i]));
  }
  out.push_back(states.Take());
  Family lost("tenure_clients_lost_total", "Sessions whose process ended without a goodbye.",
              MetricType::Counter);
  lost.Add({}, sessions.clients_lost());
  out.push_back(lost.Take());
}

void AddOne(Families& out, const char* name, const char* help, Labels labels, double value) {
  Family family(name, help, MetricType::Gauge);
  family.Add(std::move(labels), value);
  out.push_back(family.Take());
}

}  // namespace

Metrics::Metrics(const Store& store, const SessionRegistry& sessions, const ReloadLog& reloads)
    : store_(store),
      sessions_(sessions),
      reloads_(reloads),
      start_time_(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
                      .count()) {}

std::vector<MetricFamily> Metrics::Collect() const {
  Snapshots snapshots;
  for (size_t i = 0; i < store_.devices().size(); ++i) {
    snapshots.push_back({store_.devices()[i]->device_info().name,
                         store_.devices()[i]->TakeSnapshot(),
                         store_.runtimes()[i]->TakeSnapshot()});
  }
  Families out;
  AddOne(out, "tenure_build_info", "Always 1.", {{"version", TENURE_VERSION}}, 1);
  AddOne(out, "tenure_process_start_time_seconds",
         "When the daemon started, in seconds since 1970.", {}, start_time_);
  AddLedger(out, snapshots);
  AddModels(out, snapshots);
  AddLoads(out, snapshots, store_.RefusedLoads());
  AddLeases(out, snapshots);
  AddBuffers(out, snapshots);
  AddBackend(out, snapshots);
  AddSessions(out, sessions_);
  AddOperation(out, store_, reloads_.Get());
  return out;
}

}  // namespace tenure
