#include <absl/strings/str_cat.h>
#include <algorithm>
#include <utility>

#include "core/store/device_store.h"

namespace tenure {
namespace {

// Bounds how late a call sees that its caller has left.
constexpr Duration kLookAround = std::chrono::milliseconds(20);

}  // namespace

void DeviceStore::SetTimes(const DeviceStoreTimes& times) {
  const MutexLock lock(mutex_);
  times_ = times;
  for (const Region* region : regions_.All()) {
    const bool kept =
        region->state == RegionState::kRetained || region->state == RegionState::kEmpty;
    if (!kept || models_.OfRegion(region->id)->retain_ttl.has_value()) continue;
    regions_.Update(region->id, [&](Region& changed) {
      changed.expires = After(changed.unused_since, times.retain_ttl);
    });
  }
  Changed();
}

void DeviceStore::SetCordoned(bool cordoned) {
  const MutexLock lock(mutex_);
  if (cordoned_ == cordoned) return;
  cordoned_ = cordoned;
  Note({.kind = cordoned ? EventKind::kCordoned : EventKind::kUncordoned});
  Changed();
}

Status DeviceStore::RefuseCordoned(const std::string& asked_device, Bytes need) const {
  const std::string& device = device_.info().name;
  const Ledger ledger = LedgerNow();
  const std::string hint = absl::StrCat(
      asked_device.empty() ? "" : "a load that names no device goes to one that is not cordoned; ",
      "`tenurectl uncordon ", device, "` makes it take models again");
  return Error(
      Reason::kCordoned,
      absl::StrCat(device, " is cordoned", asked_device.empty() ? ", as is any other device," : "",
                   " and takes no new model, though what is online there can be leased; ", hint,
                   "; needed ", FormatBytes(need), ", free ", FormatBytes(ledger.free())),
      {{"device", device},
       {"needed_bytes", absl::StrCat(need.count())},
       {"capacity_bytes", absl::StrCat(ledger.capacity.count())},
       {"free_bytes", absl::StrCat(ledger.free().count())},
       {"hint", hint}});
}

void DeviceStore::UnloadAll() {
  const MutexLock lock(mutex_);
  std::vector<RegionId> online;
  for (const Region* region : regions_.All()) {
    if (region->state == RegionState::kActive) online.push_back(region->id);
  }
  for (const RegionId region : online) TakeOffline(region);
}

void DeviceStore::RecallIdle() {
  Outbox outbox(events_);
  Duration answer_within{};
  {
    const MutexLock lock(mutex_);
    for (const Region* region : regions_.All()) {
      if (region->shares > 0) SendRecalls(region->id, outbox);
    }
    answer_within = times_.recall_wait;
  }
  outbox.Send(answer_within);
}

bool DeviceStore::mapped() const {
  const MutexLock lock(mutex_);
  const std::vector<const Region*> regions = regions_.All();
  return std::any_of(regions.begin(), regions.end(),
                     [](const Region* region) { return region->shares > 0; });
}

bool DeviceStore::ReclaimRetained(Outbox& outbox) {
  std::vector<RegionId> unmapped;
  bool mapped = false;
  for (const Region* region : regions_.All()) {
    if (!region->disposable()) continue;
    if (region->shares == 0) {
      unmapped.push_back(region->id);
    } else {
      SendRecalls(region->id, outbox);
      mapped = true;
    }
  }
  for (const RegionId region : unmapped) Reclaim(region, ReclaimCause::kTrimmed);
  return mapped;
}

Bytes DeviceStore::Trim(bool retained, const CallLimits& limits) {
  MutexLock lock(mutex_);
  Bytes given_back;
  // Who does not answer is in quarantine then, and its Region not disposable any more.
  bool mapped = retained;
  while (true) {
    Outbox outbox(events_);
    if (retained) mapped = ReclaimRetained(outbox);
    std::vector<Segment> cached = arena_.TakeCachedBefore(kNever);
    for (const Segment& segment : cached) given_back += segment.size();
    leaving_.Add(std::move(cached));
    if ((!mapped && arena_.leaving().zero()) || !limits.Check(clock_.Now()).ok() || closing_) {
      return given_back;
    }
    if (!outbox.empty()) {
      const Duration answer_within = times_.recall_wait;
      lock.Unlock();
      outbox.Send(answer_within);
      lock.Lock();
    }
    changed_.WaitFor(mutex_, kLookAround);
  }
}

}  // namespace tenure
