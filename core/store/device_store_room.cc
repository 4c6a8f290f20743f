#include <algorithm>
#include <utility>

#include "core/store/device_store.h"

namespace tenure {
namespace {

// Bounds how late a job sees that it was abandoned while it waits for room.
constexpr Duration kLookAround = std::chrono::milliseconds(20);

}  // namespace

// An Empty Region has no content to lose; among the others the one unused longest is the least
// likely to be wanted back.
const Region* DeviceStore::FindAdoptable(const Layout& layout) const {
  const auto better = [](const Region& a, const Region& b) {
    const bool a_empty = a.state == RegionState::kEmpty;
    const bool b_empty = b.state == RegionState::kEmpty;
    return a_empty != b_empty ? a_empty : a.unused_since < b.unused_since;
  };
  const Region* best = nullptr;
  for (const Region* region : regions_.WithArchitecture(layout.key())) {
    if (!region->disposable() || !region->layout->SameArchitecture(layout)) continue;
    if (best == nullptr || better(*region, *best)) best = region;
  }
  return best;
}

std::vector<VictimCandidate> DeviceStore::Candidates() const {
  std::vector<VictimCandidate> candidates;
  for (const Region* region : regions_.All()) {
    VictimCandidate candidate{
        .region = region->id, .bytes = region->bytes, .unused_since = region->unused_since};
    if (region->disposable()) {
      candidate.cost = region->shares == 0 ? VictimCost::kNothing : VictimCost::kRecall;
    } else if (IdleTooLong(*region)) {
      candidate.cost = VictimCost::kUnload;
    } else {
      continue;
    }
    candidates.push_back(candidate);
  }
  return candidates;
}

bool DeviceStore::IdleTooLong(const Region& region) const {
  return region.holding() == Holding::kIdle && region.exports == 0 &&
         !models_.OfRegion(region.id)->pinned &&
         After(region.unused_since, times_.idle_unload_after) <= clock_.Now();
}

std::optional<std::vector<VictimCandidate>> DeviceStore::VictimsFor(Bytes need) const {
  return ChooseVictims(Candidates(), SaturatingSub(need, arena_.available() + BytesToCome()));
}

bool DeviceStore::AwaitsRoom(const LoadJob& job) const {
  return job.running && !job.region.valid() &&
         arena_.RegionBytes(job.model.layout->total()) > arena_.available();
}

StatusOr<SegmentArena::Claim> DeviceStore::TakeRoom(LoadJob& job, LoadResult& result) {
  const Bytes total = job.model.layout->total();
  const Bytes need = arena_.RegionBytes(total);
  bool looked = false;
  while (true) {
    if (job.abandoned.has_value()) return *job.abandoned;
    if (std::optional<SegmentArena::Claim> claim = arena_.ClaimRoom(total))
      return *std::move(claim);

    const std::optional<std::vector<VictimCandidate>> victims = VictimsFor(need);
    if (!victims.has_value()) {
      if (looked || arena_.stranded().zero()) return RefuseRoom(need);
      // Whoever pinned memory may have ended since the last look.
      looked = true;
      mutex_.Unlock();
      (void)device_.Look();
      mutex_.Lock();
      CountPinned();
      continue;
    }
    if (!victims->empty()) {
      Outbox outbox(events_);
      if (!RecallVictims(*victims, outbox)) {
        ReclaimVictims(*victims, result);
        continue;
      }
      if (!outbox.empty()) {
        const Duration answer_within = times_.recall_wait;
        mutex_.Unlock();
        outbox.Send(answer_within);
        mutex_.Lock();
        continue;
      }
    }
    changed_.WaitFor(mutex_, kLookAround);
  }
}

Bytes DeviceStore::BytesToCome() const {
  Bytes bytes = arena_.leaving();
  for (const auto& job : jobs_) {
    const Region* region = regions_.Find(job->region);
    if (job->abandoned.has_value() && region != nullptr) bytes += region->bytes;
  }
  return bytes;
}

// Who does not answer in time is in quarantine then, and others are chosen.
bool DeviceStore::RecallVictims(const std::vector<VictimCandidate>& victims, Outbox& outbox) {
  bool mapped = false;
  for (const VictimCandidate& victim : victims) {
    if (regions_.Find(victim.region)->shares == 0) continue;
    SendRecalls(victim.region, outbox);
    mapped = true;
  }
  return mapped;
}

void DeviceStore::ReclaimVictims(const std::vector<VictimCandidate>& victims, LoadResult& result) {
  for (const VictimCandidate& victim : victims) {
    result.reclaimed.push_back(models_.FullNameOf(victim.region));
    if (victim.cost == VictimCost::kUnload) TakeOffline(victim.region);
    if (regions_.Find(victim.region) != nullptr) Reclaim(victim.region, ReclaimCause::kPressure);
  }
}

}  // namespace tenure
