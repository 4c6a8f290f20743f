#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
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
         After(region.unused_since, options_.idle_unload_after) <= clock_.Now();
}

StatusOr<SegmentArena::Claim> DeviceStore::TakeRoom(LoadJob& job, LoadResult& result) {
  const Bytes total = job.model.layout->total();
  const Bytes need = arena_.RegionBytes(total);
  bool looked = false;
  while (true) {
    if (job.abandoned.has_value()) return *job.abandoned;
    if (std::optional<SegmentArena::Claim> claim = arena_.ClaimRoom(total))
      return *std::move(claim);

    const Bytes lacking = need - arena_.available();
    if (lacking > BytesToCome()) {
      const std::optional<std::vector<VictimCandidate>> victims =
          ChooseVictims(Candidates(), lacking - BytesToCome());
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
      Outbox outbox(events_);
      if (!RecallVictims(*victims, outbox)) {
        ReclaimVictims(*victims, result);
        continue;
      }
      if (!outbox.empty()) {
        mutex_.Unlock();
        outbox.Send(options_.recall_wait);
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

Status DeviceStore::RefuseRoom(Bytes need) const {
  const Ledger ledger = LedgerNow();
  Bytes reclaimable;
  Bytes idle;
  Bytes leased;
  Bytes quarantined;
  Bytes loading;
  std::vector<std::string> idle_models;
  std::vector<std::string> holders;
  for (const Region* region : regions_.All()) {
    const std::string model = models_.FullNameOf(region->id);
    if (region->disposable()) reclaimable += region->bytes;
    switch (region->holding()) {
      case Holding::kLoading:
        loading += region->bytes;
        break;
      case Holding::kLeased:
        leased += region->bytes;
        break;
      case Holding::kQuarantined:
        quarantined += region->bytes;
        break;
      case Holding::kIdle:
        idle += region->bytes;
        idle_models.push_back(absl::StrCat(model, " (", FormatBytes(region->bytes), ")"));
        break;
      case Holding::kRetained:
      case Holding::kLost:
        break;
    }
    for (const Holder& holder : HoldersOf(region->id)) {
      holders.push_back(absl::StrCat(holder.program, "/", holder.instance,
                                     holder.quarantined ? " (quarantined)" : "", " on ", model));
    }
  }
  const Bytes largest = ledger.free() + reclaimable;
  std::string message = absl::StrCat(
      "no room on ", device_.info().name, " for ", FormatBytes(need), ": capacity ",
      FormatBytes(ledger.capacity), ", free ", FormatBytes(ledger.free()), ", retained ",
      FormatBytes(ledger.retained), ", idle ", FormatBytes(idle), ", leased ", FormatBytes(leased),
      ", loading ", FormatBytes(loading), ", quarantined ", FormatBytes(quarantined), ", stranded ",
      FormatBytes(ledger.stranded), "; the largest model that would fit now has ",
      FormatBytes(largest));
  if (!holders.empty()) absl::StrAppend(&message, "; held by ", absl::StrJoin(holders, ", "));

  const bool fits_empty = need <= ledger.capacity;
  if (!fits_empty) {
    absl::StrAppend(&message, "; it can only fit if weights get more of ", device_.info().name);
  } else if (!idle_models.empty()) {
    absl::StrAppend(&message, "; unloading would help: ", absl::StrJoin(idle_models, ", "));
  } else if (!holders.empty()) {
    absl::StrAppend(&message, "; it fits once the holders are done and their models are unloaded");
  }
  if (!ledger.stranded.zero()) {
    absl::StrAppend(&message,
                    "; stranded bytes are free once whoever has maps or file descriptors of them"
                    " lets go or ends");
  }
  ErrorValues values = {{"device", device_.info().name},
                        {"needed_bytes", absl::StrCat(need.count())},
                        {"capacity_bytes", absl::StrCat(ledger.capacity.count())},
                        {"free_bytes", absl::StrCat(ledger.free().count())},
                        {"largest_free_bytes", absl::StrCat(ledger.largest_free.count())},
                        {"retained_bytes", absl::StrCat(ledger.retained.count())},
                        {"reclaimable_bytes", absl::StrCat(reclaimable.count())},
                        {"idle_bytes", absl::StrCat(idle.count())},
                        {"leased_bytes", absl::StrCat(leased.count())},
                        {"loading_bytes", absl::StrCat(loading.count())},
                        {"quarantined_bytes", absl::StrCat(quarantined.count())},
                        {"stranded_bytes", absl::StrCat(ledger.stranded.count())},
                        {"largest_loadable_bytes", absl::StrCat(largest.count())}};
  if (!holders.empty()) values.emplace_back("holders", absl::StrJoin(holders, ", "));
  const bool held = fits_empty && !holders.empty();
  return Error(held ? Reason::kHeldByLeases : Reason::kCapacity, message, values);
}

}  // namespace tenure
