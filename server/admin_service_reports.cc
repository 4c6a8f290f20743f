#include <map>
#include <numeric>
#include <span>
#include <string>

#include "server/admin_service.h"
#include "server/errors.h"
#include "server/printable.h"
#include "server/translate.h"

// What operators ask when something is odd.

namespace tenure {
namespace {

uint64_t Sum(const std::map<std::string, uint64_t>& by_reason) {
  return std::accumulate(by_reason.begin(), by_reason.end(), uint64_t{0},
                         [](uint64_t sum, const auto& each) { return sum + each.second; });
}

// Used and cached, by size.
using Sizes = std::map<Bytes, std::pair<uint64_t, uint64_t>>;

template <typename Snapshot>
v1::ArenaSummary Summary(const DeviceInfo& device, const char* arena, const Snapshot& now,
                         std::span<const SegmentRun> cached, Sizes sizes) {
  v1::ArenaSummary summary;
  summary.set_device(device.name);
  *summary.mutable_ledger() = ToProto(arena, now.ledger);
  summary.set_peak_reserved(now.peaks.reserved.count());
  summary.set_peak_allocated(now.peaks.allocated.count());
  for (const SegmentRun& run : cached) sizes[run.size].second += run.count;
  for (const auto& [size, counts] : sizes) {
    v1::SegmentsOfSize& segments = *summary.add_segments();
    segments.set_size(size.count());
    segments.set_used(counts.first);
    segments.set_cached(counts.second);
  }
  return summary;
}

v1::ArenaSummary WeightsSummary(const DeviceStore& store) {
  const DeviceStore::Snapshot now = store.TakeSnapshot();
  const WeightsMap map = store.TakeMap();
  Sizes sizes;
  for (const RegionMap& region : map.regions) {
    for (const SegmentRun& run : region.segments) sizes[run.size].first += run.count;
  }
  v1::ArenaSummary summary = Summary(store.device_info(), "weights", now, map.cached, sizes);
  const StoreCounters& counters = now.counters;
  const uint64_t failed = Sum(counters.failed_loads);
  summary.set_requests(std::accumulate(counters.loads.begin(), counters.loads.end(), failed));
  summary.set_failed(failed);
  summary.set_reclaims(counters.reclaims[static_cast<size_t>(ReclaimCause::kPressure)]);
  return summary;
}

v1::ArenaSummary RuntimeSummary(const RuntimeStore& store) {
  const RuntimeStore::Snapshot now = store.TakeSnapshot();
  const RuntimeMap map = store.TakeMap();
  Sizes sizes;
  for (const PoolMap& pool : map.pools) {
    for (const PoolMap::SegmentPlace& place : pool.segments) {
      sizes[pool.segment_size].first += place.state != PoolSegmentState::kComing;
    }
  }
  v1::ArenaSummary summary = Summary(store.device_info(), "runtime", now, map.cached, sizes);
  const uint64_t failed = Sum(now.counters.refusals);
  summary.set_requests(now.counters.waits.count() + failed);
  summary.set_failed(failed);
  summary.set_reclaims(now.counters.recalls_sent);
  return summary;
}

v1::Leak LeakOf(const LongHold& hold) {
  v1::Leak leak;
  leak.set_device(hold.device);
  leak.set_arena(hold.arena);
  leak.set_kind(hold.kind);
  leak.set_subject(Printable(hold.subject));
  leak.set_session_id(hold.session.value());
  leak.set_program(hold.identity.program);
  leak.set_instance(hold.identity.instance);
  leak.set_bytes(hold.bytes.count());
  *leak.mutable_held() = ToProto(hold.held);
  if (hold.usual != Duration::zero()) *leak.mutable_usual() = ToProto(hold.usual);
  return leak;
}

void AddStranded(const std::string& device, const char* arena, const Ledger& ledger,
                 v1::ListLeaksResponse& response) {
  if (ledger.stranded.zero() && ledger.quarantined.zero()) return;
  v1::StrandedMemory& stranded = *response.add_stranded();
  stranded.set_device(device);
  stranded.set_arena(arena);
  stranded.set_stranded(ledger.stranded.count());
  stranded.set_quarantined(ledger.quarantined.count());
}

}  // namespace

grpc::Status AdminService::GetSummary(grpc::ServerContext* context,
                                      const v1::GetSummaryRequest* request,
                                      v1::GetSummaryResponse* response) {
  const Status admitted = request->reset_peaks() ? gate_.AdmitOperator(*context).status()
                                                 : gate_.Admit(*context).status();
  if (!admitted.ok()) return ToGrpcStatus(admitted);
  for (size_t i = 0; i < store_.devices().size(); ++i) {
    *response->add_arenas() = WeightsSummary(*store_.devices()[i]);
    *response->add_arenas() = RuntimeSummary(*store_.runtimes()[i]);
    if (!request->reset_peaks()) continue;
    store_.devices()[i]->ForgetPeaks();
    store_.runtimes()[i]->ForgetPeaks();
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::ListLeaks(grpc::ServerContext* context, const v1::ListLeaksRequest*,
                                     v1::ListLeaksResponse* response) {
  const Status admitted = gate_.Admit(*context).status();
  if (!admitted.ok()) return ToGrpcStatus(admitted);
  for (size_t i = 0; i < store_.devices().size(); ++i) {
    const DeviceStore& weights = *store_.devices()[i];
    const RuntimeStore& runtime = *store_.runtimes()[i];
    for (const LongHold& hold : weights.LongHolds()) *response->add_leaks() = LeakOf(hold);
    for (const LongHold& hold : runtime.LongHolds()) *response->add_leaks() = LeakOf(hold);
    const std::string& device = weights.device_info().name;
    AddStranded(device, "weights", weights.TakeSnapshot().ledger, *response);
    AddStranded(device, "runtime", runtime.TakeSnapshot().ledger, *response);
  }
  return grpc::Status::OK;
}

}  // namespace tenure
