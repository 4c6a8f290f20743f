#include <absl/strings/str_cat.h>
#include <algorithm>
#include <utility>

#include "core/store/device_store.h"

namespace tenure {
namespace {

// Takes as long as the Device likes.
StatusOr<ExportedBatch> ExportNow(std::span<const Segment> segments, ShareExport batch) {
  for (const Segment& segment : segments) {
    TENURE_ASSIGN_OR_RETURN(UniqueFd fd, segment.Export());
    batch.sizes.push_back(segment.size());
    batch.fds.push_back(std::move(fd));
  }
  return ExportedBatch(std::move(batch));
}

}  // namespace

std::optional<StatusOr<ExportId>> DeviceStore::BeginExport(SessionId session, LeaseId lease,
                                                           uint32_t first, uint32_t limit) {
  const MutexLock lock(mutex_);
  const RegionId region = leases_.RegionOf(lease);
  if (!region.valid()) return std::nullopt;
  TENURE_RETURN_IF_ERROR(lost_);
  const std::vector<Segment>& segments = regions_.Find(region)->segments;
  // A Region without bytes has no Segments: its first batch is empty.
  if (first > segments.size() || (first == segments.size() && first > 0)) {
    return Error(Reason::kInvalidRequest, absl::StrCat("the region has no such segment: ", first));
  }
  TENURE_ASSIGN_OR_RETURN(const Share share, leases_.OpenShare(session, lease));
  const ExportId id = export_ids_.Next();
  const size_t count = std::min<size_t>(limit, segments.size() - first);
  exports_.Add(id, Export{.share = share,
                          .lease = lease,
                          .segment_count = static_cast<uint32_t>(segments.size()),
                          .segments = std::span(segments).subspan(first, count)});
  regions_.Update(region, [](Region& exported) { ++exported.exports; });
  UseChanged(region);
  export_work_.NotifyOne();
  return id;
}

void DeviceStore::RunExports() {
  MutexLock lock(mutex_);
  while (!closing_) {
    const auto next = exports_.TakeWaiting();
    if (!next.has_value()) {
      export_work_.Wait(mutex_);
      continue;
    }
    lock.Unlock();
    RunExport(next->first, next->second);
    lock.Lock();
  }
}

void DeviceStore::RunExport(ExportId id, const Export& running) {
  StatusOr<ExportedBatch> batch = ExportNow(
      running.segments,
      ShareExport{
          .share = running.share, .segment_count = running.segment_count, .sizes = {}, .fds = {}});
  Status refusal;
  {
    const MutexLock lock(mutex_);
    regions_.Update(running.share.region, [](Region& region) { --region.exports; });
    Changed();
    if (!exports_.FinishRun(id)) return;
    if (batch.ok()) refusal = MaySend(running);
    if (!batch.ok() || !refusal.ok()) End(id, /*sent=*/false);
  }
  if (!refusal.ok()) batch = std::move(refusal);
  events_.OnExported(running.share.session, id, std::move(batch));
}

Status DeviceStore::MaySend(const Export& exported) const {
  TENURE_RETURN_IF_ERROR(lost_);
  const Share& share = exported.share;
  if (!leases_.HasShare(share.session, share.serial)) {
    return Error(Reason::kCancelled, "the share ended while it was being exported");
  }
  return leases_.Find(share.session, exported.lease).status();
}

bool DeviceStore::End(ExportId id, bool sent) {
  const auto ended = exports_.End(id, sent);
  if (!ended.has_value()) return false;
  const Share& share = ended->details.share;
  if (ended->waited) regions_.Update(share.region, [](Region& region) { --region.exports; });
  // Nothing but a Share that has not ended is sure to have kept the Region.
  if (leases_.EndExport(share.session, share.serial, sent)) UseChanged(share.region);
  return true;
}

std::optional<Status> DeviceStore::CheckExport(ExportId id) const {
  const MutexLock lock(mutex_);
  const Export* const exported = exports_.Find(id);
  if (exported == nullptr) return std::nullopt;
  return MaySend(*exported);
}

bool DeviceStore::EndExport(ExportId id, bool sent) {
  const MutexLock lock(mutex_);
  return End(id, sent);
}

void DeviceStore::LoseExports(const Status& reason, Outbox& outbox) {
  for (const auto& [id, unfinished] : exports_.Unfinished()) {
    outbox.AddFailedExport(unfinished.share.session, id, reason);
    End(id, /*sent=*/false);
  }
}

bool DeviceStore::Unmapped(SessionId session, ShareSerial share) {
  const MutexLock lock(mutex_);
  const std::optional<RegionId> region = leases_.CloseShare(session, share);
  if (!region.has_value()) return false;
  UseChanged(*region);
  return true;
}

}  // namespace tenure
