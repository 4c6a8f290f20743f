#include "client/cpp/call_admin.h"
#include "client/cpp/duration.h"
#include "client/cpp/translate.h"
#include "tenure/client.h"

namespace tenure::client {
namespace {

ArenaSummary SummaryOf(const v1::ArenaSummary& summary) {
  ArenaSummary value{.device = summary.device(),
                     .ledger = ToValue(summary.ledger()),
                     .peak_reserved = summary.peak_reserved(),
                     .peak_allocated = summary.peak_allocated(),
                     .requests = summary.requests(),
                     .failed = summary.failed(),
                     .reclaims = summary.reclaims(),
                     .segments = {}};
  for (const v1::SegmentsOfSize& segments : summary.segments()) {
    value.segments.push_back(
        {.size = segments.size(), .used = segments.used(), .cached = segments.cached()});
  }
  return value;
}

Leak LeakOf(const v1::Leak& leak) {
  Leak value{.device = leak.device(),
             .arena = leak.arena(),
             .kind = leak.kind(),
             .subject = leak.subject(),
             .session_id = leak.session_id(),
             .program = leak.program(),
             .instance = leak.instance(),
             .bytes = leak.bytes(),
             .held = FromProto(leak.held()),
             .usual = {}};
  if (leak.has_usual()) value.usual = FromProto(leak.usual());
  return value;
}

}  // namespace

absl::StatusOr<std::vector<ArenaSummary>> Client::Summary(bool reset_peaks,
                                                          const CallOptions& options) const {
  v1::GetSummaryRequest request;
  request.set_reset_peaks(reset_peaks);
  v1::GetSummaryResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(CallAdmin(*reconnector_, timeout_, options,
                                          &v1::AdminService::Stub::GetSummary, request, response));
  std::vector<ArenaSummary> arenas;
  for (const v1::ArenaSummary& summary : response.arenas()) arenas.push_back(SummaryOf(summary));
  return arenas;
}

absl::StatusOr<LeakReport> Client::Leaks(const CallOptions& options) const {
  v1::ListLeaksResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(CallAdmin(*reconnector_, timeout_, options,
                                          &v1::AdminService::Stub::ListLeaks,
                                          v1::ListLeaksRequest(), response));
  LeakReport report;
  for (const v1::Leak& leak : response.leaks()) report.leaks.push_back(LeakOf(leak));
  for (const v1::StrandedMemory& stranded : response.stranded()) {
    report.stranded.push_back({.device = stranded.device(),
                               .arena = stranded.arena(),
                               .stranded = stranded.stranded(),
                               .quarantined = stranded.quarantined()});
  }
  return report;
}

}  // namespace tenure::client
