#include <algorithm>
#include <utility>

#include "core/store/runtime_store.h"

namespace tenure {
namespace {

// Takes as long as the Device likes.
StatusOr<ExportedBatch> ExportNow(PoolId pool, std::span<const PoolTable::Shared> segments) {
  PoolExport batch;
  batch.pool = pool;
  for (const PoolTable::Shared& shared : segments) {
    TENURE_ASSIGN_OR_RETURN(UniqueFd fd, shared.segment->Export());
    batch.segments.push_back(
        {.offset = shared.id.offset, .share = shared.share, .size = shared.segment->size()});
    batch.fds.push_back(std::move(fd));
  }
  return ExportedBatch(std::move(batch));
}

}  // namespace

std::optional<StatusOr<ExportId>> RuntimeStore::BeginExport(SessionId session, PoolId pool,
                                                            std::span<const Bytes> offsets) {
  const MutexLock lock(mutex_);
  StatusOr<std::vector<PoolTable::Shared>> begun = pools_.BeginExport(session, pool, offsets);
  if (HasReason(begun.status(), Reason::kLeaseNotFound)) return std::nullopt;
  TENURE_RETURN_IF_ERROR(lost_);
  TENURE_RETURN_IF_ERROR(begun.status());
  const ExportId id = export_ids_.Next();
  exports_.emplace(id, Export{.session = session, .pool = pool, .segments = *std::move(begun)});
  export_work_.NotifyOne();
  return id;
}

void RuntimeStore::RunExports() {
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

void RuntimeStore::RunExport(ExportId id, const Export& running) {
  StatusOr<ExportedBatch> batch = ExportNow(running.pool, running.segments);
  Status refusal;
  {
    const MutexLock lock(mutex_);
    for (const PoolTable::Shared& shared : running.segments) pools_.EndExport(shared);
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
  events_.OnExported(running.session, id, std::move(batch));
}

Status RuntimeStore::MaySend(const Export& exported) const {
  TENURE_RETURN_IF_ERROR(lost_);
  for (const PoolTable::Shared& shared : exported.segments) {
    TENURE_RETURN_IF_ERROR(pools_.MaySend(shared));
  }
  return absl::OkStatus();
}

void RuntimeStore::End(Exports::iterator ending, bool sent) {
  const std::vector<PoolTable::Shared> segments = ending->second.segments;
  switch (ending->second.stage) {
    case Export::Stage::kWaiting:
      for (const PoolTable::Shared& shared : segments) pools_.EndExport(shared);
      exports_.erase(ending);
      break;
    case Export::Stage::kRunning:
      ending->second.ended = true;
      break;
    case Export::Stage::kExported:
      exports_.erase(ending);
      break;
  }
  for (const PoolTable::Shared& shared : segments) pools_.EndSending(shared, sent);
  Changed();
}

std::optional<Status> RuntimeStore::CheckExport(ExportId id) const {
  const MutexLock lock(mutex_);
  const auto found = exports_.find(id);
  if (found == exports_.end()) return std::nullopt;
  return MaySend(found->second);
}

bool RuntimeStore::EndExport(ExportId id, bool sent) {
  const MutexLock lock(mutex_);
  const auto found = exports_.find(id);
  if (found == exports_.end() || found->second.ended) return false;
  TENURE_CHECK(!sent || found->second.stage == Export::Stage::kExported);
  End(found, sent);
  return true;
}

void RuntimeStore::LoseExports(const Status& reason, Outbox& outbox) {
  for (auto next = exports_.begin(); next != exports_.end();) {
    const auto each = next++;
    if (each->second.ended || each->second.stage == Export::Stage::kExported) continue;
    outbox.AddFailedExport(each->second.session, each->first, reason);
    End(each, /*sent=*/false);
  }
}

}  // namespace tenure
