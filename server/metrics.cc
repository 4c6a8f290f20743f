#include "server/metrics.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "server/device_snapshot.h"
#include "server/metrics_operation.h"
#include "server/printable.h"
#include "server/process_metrics.h"

namespace tenure {
namespace {

using prometheus::MetricType;

// Of all that tenure_model_bytes tells.
constexpr size_t kMostModels = 32;

constexpr std::pair<const char*, Bytes Ledger::*> kStates[] = {
    {"leased", &Ledger::leased},
    {"loading", &Ledger::loading},
    {"idle", &Ledger::idle},
    {"retained", &Ledger::retained},
    {"quarantined", &Ledger::quarantined},
    {"padding", &Ledger::padding},
    {"cached", &Ledger::cached},
    {"pooled", &Ledger::pooled},
    {"unbacked", &Ledger::unbacked},
    {"stranded", &Ledger::stranded}};

// A family with one series for each arena.
struct ArenaMetric {
  const char* name;
  const char* help;
  Bytes (*of)(const Ledger& ledger, const ArenaPeaks& peaks);
};
constexpr ArenaMetric kOfArenas[] = {
    {"tenure_arena_capacity_bytes", "What the arena may hold.",
     [](const Ledger& ledger, const ArenaPeaks&) { return ledger.capacity; }},
    {"tenure_arena_reserved_bytes", "Held from the backend.",
     [](const Ledger& ledger, const ArenaPeaks&) { return ledger.reserved; }},
    {"tenure_arena_allocated_bytes",
     "In buffers, and in regions that are leased, loading, idle or quarantined; padding included.",
     [](const Ledger& ledger, const ArenaPeaks&) { return ledger.allocated(); }},
    {"tenure_arena_requested_bytes", "Of the allocated bytes, what callers asked for.",
     [](const Ledger& ledger, const ArenaPeaks&) { return ledger.requested(); }},
    {"tenure_arena_peak_reserved_bytes",
     "The most reserved since start, or since `tenurectl summary --reset-peak`.",
     [](const Ledger&, const ArenaPeaks& peaks) { return peaks.reserved; }},
    {"tenure_arena_peak_allocated_bytes", "The most allocated, likewise.",
     [](const Ledger&, const ArenaPeaks& peaks) { return peaks.allocated; }},
    {"tenure_arena_largest_free_bytes",
     "The largest request that would succeed now without reclaiming anything.",
     [](const Ledger& ledger, const ArenaPeaks&) { return ledger.largest_free; }},
    {"tenure_arena_lost_bytes", "Was capacity before the device was lost.",
     [](const Ledger& ledger, const ArenaPeaks&) { return ledger.lost; }},
};

constexpr DeviceMetric kOfDevices[] = {
    {"tenure_device_foreign_bytes", "Of the device, used by others, as the driver says.",
     MetricType::Gauge, [](const DeviceSnapshot& each) { return each.weights.foreign.count(); }},
    {"tenure_device_lost", "1 once the device does not serve any more.", MetricType::Gauge,
     [](const DeviceSnapshot& each) { return uint64_t{each.weights.lost.ok() ? 0U : 1U}; }},
    {"tenure_backend_segments_created_total", "Segments taken from the backend.",
     MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.weights.backend.segments_created; }},
    {"tenure_backend_segments_destroyed_total", "Segments given back to the backend.",
     MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.weights.backend.segments_destroyed; }},
    {"tenure_backend_exports_total", "Segments exported as an fd.", MetricType::Counter,
     [](const DeviceSnapshot& each) { return each.weights.backend.exports; }},
};

void AddArenas(MetricFamilies& out, const DeviceSnapshots& snapshots) {
  FamilyBuilder memory(
      "tenure_memory_bytes",
      "What an arena's capacity is used for; the states add up to it. Stranded: given up by the "
      "daemon or an earlier one, and still mapped or kept open by somebody.",
      MetricType::Gauge);
  FamilyBuilder ratio("tenure_arena_fragmentation_ratio",
                      "1 - largest free / free; 0 when nothing is free.", MetricType::Gauge);
  FamilyBuilder segments("tenure_segments", "Segments held from the backend, in use or cached.",
                         MetricType::Gauge);
  for (const DeviceSnapshot& each : snapshots) {
    each.ForEachArena([&](const char* arena, const auto& now) {
      const MetricLabels labels = {{"device", each.device}, {"arena", arena}};
      const auto with_state = [&](const char* state) {
        MetricLabels all = labels;
        all.push_back({"state", state});
        return all;
      };
      for (const auto& [state, bytes] : kStates) memory.Add(with_state(state), now.ledger.*bytes);
      ratio.Add(labels, now.ledger.fragmentation_ratio());
      segments.Add(with_state("used"), now.segments);
      segments.Add(with_state("cached"), now.cached_segments);
    });
  }
  memory.MoveTo(out);
  for (const ArenaMetric& metric : kOfArenas) {
    FamilyBuilder family(metric.name, metric.help, MetricType::Gauge);
    for (const DeviceSnapshot& each : snapshots) {
      each.ForEachArena([&](const char* arena, const auto& now) {
        family.Add({{"device", each.device}, {"arena", arena}}, metric.of(now.ledger, now.peaks));
      });
    }
    family.MoveTo(out);
  }
  ratio.MoveTo(out);
  segments.MoveTo(out);
}

void AddModelBytes(MetricFamilies& out, const Store& store) {
  std::vector<ModelView> models = store.Models();
  std::stable_sort(models.begin(), models.end(), [](const ModelView& a, const ModelView& b) {
    return a.region_bytes > b.region_bytes;
  });
  FamilyBuilder family("tenure_model_bytes", "Memory of each of the largest models.",
                       MetricType::Gauge);
  for (size_t i = 0; i < std::min(models.size(), kMostModels); ++i) {
    const std::string model =
        Printable(models[i].name) + "@" + std::to_string(models[i].revision.value());
    family.Add({{"device", models[i].device}, {"model", model}}, models[i].region_bytes);
  }
  family.MoveTo(out);
}

void AddSessions(MetricFamilies& out, const SessionRegistry& sessions) {
  FamilyBuilder states("tenure_sessions", "Sessions whose process has not ended.",
                       MetricType::Gauge);
  const auto counts = sessions.CountByState();
  constexpr std::array<const char*, counts.size()> kNames = {"LIVE", "DEAF", "GONE"};
  for (size_t i = 0; i < counts.size(); ++i) {
    states.Add({{"state", kNames[i]}}, static_cast<uint64_t>(counts[i]));
  }
  states.MoveTo(out);
  FamilyBuilder lost("tenure_clients_lost_total", "Sessions whose process ended without a goodbye.",
                     MetricType::Counter);
  lost.Add({}, sessions.clients_lost());
  lost.MoveTo(out);
}

// What a dashboard joins with the metrics of others.
void AddIdentity(MetricFamilies& out, const DeviceSnapshots& snapshots) {
  FamilyBuilder build("tenure_build_info", "Always 1.", MetricType::Gauge);
  build.Add({{"version", TENURE_VERSION}}, 1.0);
  build.MoveTo(out);
  FamilyBuilder gpus("tenure_gpu_info", "Always 1: the UUID that DCGM's metrics have.",
                     MetricType::Gauge);
  for (const DeviceSnapshot& each : snapshots) {
    if (each.backend == "cuda") gpus.Add({{"device", each.device}, {"UUID", each.uuid}}, 1.0);
  }
  gpus.MoveTo(out);
}

}  // namespace

void AddDeviceMetrics(MetricFamilies& out, std::span<const DeviceMetric> metrics,
                      const DeviceSnapshots& snapshots) {
  for (const DeviceMetric& metric : metrics) {
    FamilyBuilder family(metric.name, metric.help, metric.type);
    for (const DeviceSnapshot& each : snapshots) {
      family.Add({{"device", each.device}}, metric.of(each));
    }
    family.MoveTo(out);
  }
}

Metrics::Metrics(const Store& store, const SessionRegistry& sessions, const RpcMetrics& rpcs,
                 const ReloadLog& reloads, const Planner& planner, const MetricsOptions& options)
    : store_(store),
      sessions_(sessions),
      rpcs_(rpcs),
      reloads_(reloads),
      planner_(planner),
      options_(options) {}

MetricFamilies Metrics::Collect() const {
  DeviceSnapshots snapshots;
  for (size_t i = 0; i < store_.devices().size(); ++i) {
    const DeviceInfo& info = store_.devices()[i]->device_info();
    snapshots.push_back({.device = info.name,
                         .backend = info.backend,
                         .uuid = info.uuid,
                         .weights = store_.devices()[i]->TakeSnapshot(),
                         .runtime = store_.runtimes()[i]->TakeSnapshot()});
  }
  MetricFamilies out;
  AddIdentity(out, snapshots);
  AddArenas(out, snapshots);
  AddDeviceMetrics(out, kOfDevices, snapshots);
  AddWeights(out, snapshots, store_.RefusedLoads());
  AddRuntime(out, snapshots);
  AddRefusals(out, snapshots);
  planner_.AddTo(out);
  if (options_.model_bytes) AddModelBytes(out, store_);
  AddSessions(out, sessions_);
  AddOperation(out, snapshots, reloads_.Get());
  rpcs_.AddTo(out);
  AddProcess(out);
  return out;
}

}  // namespace tenure
