#include <absl/strings/str_join.h>
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/store/device_store.h"

namespace tenure {
namespace {

Bytes SizeOf(const std::vector<Segment>& segments) {
  Bytes size;
  for (const Segment& segment : segments) size += segment.size();
  return size;
}

}  // namespace

void DeviceStore::RunLoads() {
  MutexLock lock(mutex_);
  while (true) {
    const std::shared_ptr<LoadJob> job = TakeJob();
    if (job != nullptr) {
      lock.Unlock();
      RunJob(*job);
      lock.Lock();
    } else if (closing_) {
      return;
    } else {
      work_.Wait(mutex_);
    }
  }
}

// Loads of one name run one after another, so that the last one asked for is the one that stays. A
// job that waited for its name is taken by the worker that has just ended the one before.
std::shared_ptr<LoadJob> DeviceStore::TakeJob() {
  for (const std::shared_ptr<LoadJob>& job : jobs_) {
    const bool name_is_busy = std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& other) {
      return other->running && other->request.name == job->request.name;
    });
    if (job->running || name_is_busy) continue;
    job->running = true;
    return job;
  }
  return nullptr;
}

void DeviceStore::RunJob(LoadJob& job) {
  LoadResult result;
  Placement placement;
  Status status;
  do {
    status = Place(job, placement, result);
  } while (status.ok() && !Vacate(job, placement));
  if (status.ok()) status = FillIn(job, placement, result);
  job.CloseFiles();

  MutexLock lock(mutex_);
  if (job.abandoned.has_value()) status = *job.abandoned;
  if (status.ok()) {
    Publish(job, placement, result);
  } else {
    std::vector<Segment> created = Undo(placement);
    const Bytes size = SizeOf(created);
    lock.Unlock();
    created.clear();
    lock.Lock();
    arena_.Left(size);
    CountPinned();
    Fail(job, placement, result, status);
  }
  std::erase_if(jobs_, [&](const auto& other) { return other.get() == &job; });
  job.done.NotifyAll();
  Changed();
}

Status DeviceStore::Place(LoadJob& job, Placement& placement, LoadResult& result) {
  const MutexLock lock(mutex_);
  if (job.abandoned.has_value()) return *job.abandoned;
  const ContentId& content = job.model.checkpoint.content;
  Model model{.name = job.request.name,
              .revision = models_.RevisionFor(job.request.name, content),
              .region = {},
              .path = job.model.checkpoint.path,
              .source = job.request.path,
              .pinned = job.request.pin,
              .retain_ttl = job.request.retain_ttl};
  if (const Region* region = FindAdoptable(*job.model.layout)) {
    if (region->content.has_value()) placement.overwritten = models_.FullNameOf(region->id);
    placement.adopted = true;
    placement.region = region->id;
    result.reuse = Reuse::kAdopted;
    result.segments_reused = static_cast<uint32_t>(region->segments.size());
    leases_.CancelRecalls(region->id);
    regions_.Transition(region->id, RegionEvent::kAdopt);
  } else {
    TENURE_ASSIGN_OR_RETURN(placement.claim, TakeRoom(job, result));
    placement.region = regions_.Create(job.model.layout, placement.claim.bytes).id;
  }
  job.region = placement.region;
  model.region = placement.region;
  models_.Assign(std::move(model));
  Changed();
  return absl::OkStatus();
}

bool DeviceStore::Vacate(LoadJob& job, Placement& placement) {
  SegmentArena::Claim& claim = placement.claim;
  if (claim.evicted.empty()) return true;
  const Bytes evicted = SizeOf(claim.evicted);
  claim.evicted.clear();
  const MutexLock lock(mutex_);
  arena_.Destroyed(evicted - claim.spare);
  arena_.Left(claim.spare);
  CountPinned();
  Changed();
  if (!arena_.overdrawn()) return true;

  std::vector<Segment> cached;
  for (SegmentArena::Claim::Slot& slot : claim.slots) {
    if (slot.segment.has_value()) cached.push_back(*std::move(slot.segment));
  }
  const Bytes never_created = claim.bytes - SizeOf(cached);
  arena_.Return(std::move(cached), never_created, clock_.Now());
  regions_.Transition(placement.region, RegionEvent::kAbandon);
  models_.Erase(placement.region);
  job.region = {};
  placement = {};
  return false;
}

Status DeviceStore::FillIn(LoadJob& job, Placement& placement, LoadResult& result) {
  if (!placement.adopted) TENURE_RETURN_IF_ERROR(Create(placement, result));
  LoadPhases& phases = result.phases;
  phases.open = job.model.open;
  phases.parse = job.model.parse;
  phases.place = clock_.Now() - job.model.started - phases.open - phases.parse;

  job.stage = "read";
  const std::vector<Segment>* segments = nullptr;
  {
    const MutexLock lock(mutex_);
    segments = &regions_.Find(placement.region)->segments;
  }
  // Nobody but this job touches the Segments of a Region that is Loading.
  TENURE_ASSIGN_OR_RETURN(const CopyReport report,
                          copy_engine_.Read(job.model.spans, *segments, device_, job.copy));
  result.copied = report.copied;
  phases.read = report.read;
  phases.copy = report.copy;
  job.stage = "publish";
  return CheckUnchanged(job.model.checkpoint);
}

Status DeviceStore::Create(Placement& placement, LoadResult& result) {
  SegmentArena::Claim& claim = placement.claim;
  for (const SegmentArena::Claim::Slot& slot : claim.slots) {
    ++(slot.segment.has_value() ? result.segments_reused : result.segments_created);
  }
  result.reuse = result.segments_reused > 0 ? Reuse::kRecycled : Reuse::kFresh;
  const std::vector<Bytes> missing = claim.MissingSizes();
  StatusOr<std::vector<Segment>> created = device_.CreateSegments(SegmentUse::kWeights, missing);

  std::vector<Segment> segments;
  size_t next_created = 0;
  for (SegmentArena::Claim::Slot& slot : claim.slots) {
    if (slot.segment.has_value()) {
      segments.push_back(*std::move(slot.segment));
      placement.created.push_back(false);
    } else if (created.ok()) {
      segments.push_back(std::move((*created)[next_created++]));
      placement.created.push_back(true);
    }
  }
  claim.slots.clear();
  const MutexLock lock(mutex_);
  if (created.ok()) arena_.Created(std::accumulate(missing.begin(), missing.end(), Bytes(0)));
  regions_.Update(placement.region, [&](Region& region) { region.segments = std::move(segments); });
  if (created.ok()) return absl::OkStatus();
  Status cause = created.status();
  if (!device_.foreign().zero()) {
    cause = WithNote(cause, "used by others", FormatBytes(device_.foreign()));
  }
  return HasReason(cause, Reason::kBackend) ? Explain(Reason::kBackend, claim.bytes, cause) : cause;
}

void DeviceStore::Publish(LoadJob& job, const Placement& placement, LoadResult& result) {
  const RegionId id = placement.region;
  const ContentId& content = job.model.checkpoint.content;
  const Instant now = clock_.Now();
  regions_.Update(id, [&](Region& region) {
    region.content = content;
    region.unused_since = now;
    region.expires = kNever;
  });
  regions_.Transition(id, RegionEvent::kPublish);
  Model model = *models_.OfRegion(id);
  model.revision = models_.RevisionFor(model.name, content);
  models_.Assign(model);
  MakeCurrent(id, content);

  LoadPhases& phases = result.phases;
  phases.total = now - job.model.started;
  phases.publish =
      phases.total - phases.open - phases.parse - phases.place - phases.read - phases.copy;
  for (LoadWaiter* waiter : job.waiters) {
    waiter->result = result;
    if (!waiter->request.acquire) continue;
    StatusOr<GrantedLease> lease = Grant(waiter->request.session, model, waiter->request.lease_ttl);
    if (lease.ok()) {
      (*waiter->result)->lease = *std::move(lease);
    } else {
      waiter->result = lease.status();
    }
  }
  UseChanged(id);
  CountLoad(job.request.session, id, result);
  for (LoadWaiter* waiter : job.waiters) {
    if (!waiter->result->ok()) continue;
    (*waiter->result)->model = ViewOf(*models_.OfRegion(id));
    if ((*waiter->result)->lease.has_value()) {
      Note(EventKind::kLeaseGranted, id, waiter->request.session);
    }
  }
}

// What came out of the cache goes back there; nothing else is left of the attempt.
std::vector<Segment> DeviceStore::Undo(const Placement& placement) {
  const RegionId id = placement.region;
  if (!id.valid()) return {};
  if (placement.adopted) {
    regions_.Transition(id, RegionEvent::kSpoil);
    if (lost_.ok()) {
      StartRetention(id);
    } else {
      regions_.Transition(id, RegionEvent::kLose);
    }
    return {};
  }
  std::vector<Segment> segments = regions_.Transition(id, RegionEvent::kAbandon);
  const Bytes never_created = placement.claim.bytes - SizeOf(segments);
  std::vector<Segment> created;
  std::vector<Segment> reused;
  for (size_t i = 0; i < segments.size(); ++i) {
    (placement.created[i] ? created : reused).push_back(std::move(segments[i]));
  }
  arena_.Leave(SizeOf(created));
  arena_.Return(std::move(reused), never_created, clock_.Now());
  models_.Erase(id);
  return created;
}

void DeviceStore::Fail(LoadJob& job, const Placement& placement, const LoadResult& attempt,
                       Status error) {
  const std::optional<ErrorDetail> detail = DetailOf(error);
  const std::string reason = detail.has_value() ? detail->reason : "INTERNAL";
  ++counters_.failed_loads[reason];
  Note({.kind = EventKind::kLoadFailed,
        .session = job.request.session,
        .subject = job.request.name,
        .bytes = job.model.layout->total(),
        .took = clock_.Now() - job.model.started,
        .detail = reason});
  if (!placement.overwritten.empty()) {
    error = WithNote(error, "retained content was overwritten", placement.overwritten);
  }
  if (!attempt.reclaimed.empty()) {
    error = WithNote(error, "content was reclaimed", absl::StrJoin(attempt.reclaimed, ", "));
  }
  for (LoadWaiter* waiter : job.waiters) waiter->result = error;
}

}  // namespace tenure
