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
  exports_.Add(id, Export{.session = session, .pool = pool, .segments = *std::move(begun)});
  export_work_.NotifyOne();
  return id;
}

void RuntimeStore::RunExports() {
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

void RuntimeStore::RunExport(ExportId id, const Export& running) {
  StatusOr<ExportedBatch> batch = ExportNow(running.pool, running.segments);
  Status refusal;
  {
    const MutexLock lock(mutex_);
    for (const PoolTable::Shared& shared : running.segments) pools_.EndExport(shared);
    Changed();
    if (!exports_.FinishRun(id)) return;
    if (batch.ok()) refusal = MaySend(running);
    if (!batch.ok() || !refusal.ok()) End(id, /*sent=*/false);
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

bool RuntimeStore::End(ExportId id, bool sent) {
  const auto ended = exports_.End(id, sent);
  if (!ended.has_value()) return false;
  for (const PoolTable::Shared& shared : ended->details.segments) {
    if (ended->waited) pools_.EndExport(shared);
    pools_.EndSending(shared, sent);
  }
  Changed();
  return true;
}

std::optional<Status> RuntimeStore::CheckExport(ExportId id) const {
  const MutexLock lock(mutex_);
  const Export* const exported = exports_.Find(id);
  if (exported == nullptr) return std::nullopt;
  return MaySend(*exported);
}

bool RuntimeStore::EndExport(ExportId id, bool sent) {
  const MutexLock lock(mutex_);
  return End(id, sent);
}

void RuntimeStore::LoseExports(const Status& reason, Outbox& outbox) {
  for (const auto& [id, unfinished] : exports_.Unfinished()) {
    outbox.AddFailedExport(unfinished.session, id, reason);
    End(id, /*sent=*/false);
  }
}

}  // namespace tenure
