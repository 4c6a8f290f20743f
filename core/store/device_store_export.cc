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
  exports_.emplace(id, Export{.share = share,
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
    const auto next = std::find_if(exports_.begin(), exports_.end(), [](const auto& entry) {
      return entry.second.stage == Export::Stage::kWaiting;
    });
    if (next == exports_.end()) {
      export_work_.Wait(mutex_);
      continue;
    }
    next->second.stage = Export::Stage::kRunning;
    const ExportId id = next->first;
    const Export running = next->second;
    lock.Unlock();
    RunExport(id, running);
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
    const auto found = exports_.find(id);
    if (found->second.ended) {
      exports_.erase(found);
      return;
    }
    found->second.stage = Export::Stage::kExported;
    if (batch.ok()) refusal = MaySend(running);
    if (!batch.ok() || !refusal.ok()) End(found, /*sent=*/false);
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

void DeviceStore::End(Exports::iterator ending, bool sent) {
  const Share share = ending->second.share;
  switch (ending->second.stage) {
    case Export::Stage::kWaiting:
      regions_.Update(share.region, [](Region& region) { --region.exports; });
      exports_.erase(ending);
      break;
    case Export::Stage::kRunning:
      ending->second.ended = true;
      break;
    case Export::Stage::kExported:
      exports_.erase(ending);
      break;
  }
  // Nothing but a Share that has not ended is sure to have kept the Region.
  if (leases_.EndExport(share.session, share.serial, sent)) UseChanged(share.region);
}

std::optional<Status> DeviceStore::CheckExport(ExportId id) const {
  const MutexLock lock(mutex_);
  const auto found = exports_.find(id);
  if (found == exports_.end()) return std::nullopt;
  return MaySend(found->second);
}

bool DeviceStore::EndExport(ExportId id, bool sent) {
  const MutexLock lock(mutex_);
  const auto found = exports_.find(id);
  if (found == exports_.end() || found->second.ended) return false;
  TENURE_CHECK(!sent || found->second.stage == Export::Stage::kExported);
  End(found, sent);
  return true;
}

void DeviceStore::LoseExports(const Status& reason, Outbox& outbox) {
  for (auto next = exports_.begin(); next != exports_.end();) {
    const auto each = next++;
    if (each->second.ended || each->second.stage == Export::Stage::kExported) continue;
    outbox.AddFailedExport(each->second.share.session, each->first, reason);
    End(each, /*sent=*/false);
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
