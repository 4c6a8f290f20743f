#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "core/store/device_store.h"

// What is said of room for a Region: why there is none, what would help, and whether there would be
// some.

namespace tenure {
namespace {

// "12 s", "1500 ms".
std::string FormatSpan(Duration span) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
  return ms % 1000 == 0 ? absl::StrCat(ms / 1000, " s") : absl::StrCat(ms, " ms");
}

}  // namespace

std::vector<std::string> DeviceStore::HoldersByModel() const {
  std::vector<std::string> holders;
  for (const Region* region : regions_.All()) {
    const std::string model = models_.FullNameOf(region->id);
    for (const Holder& holder : HoldersOf(region->id)) {
      holders.push_back(absl::StrCat(holder.program, "/", holder.instance,
                                     holder.quarantined ? " (quarantined)" : "", " on ", model));
    }
  }
  return holders;
}

Bytes DeviceStore::Reclaimable() const {
  Bytes bytes;
  for (const VictimCandidate& candidate : Candidates()) bytes += candidate.bytes;
  return bytes;
}

Bytes DeviceStore::LargestLoadable() const {
  return AlignDown(arena_.available() + BytesToCome() + Reclaimable(), device_.info().granule);
}

Reason DeviceStore::ReasonFor(Bytes need) const {
  if (need > arena_.capacity()) return Reason::kCapacity;
  if (VictimsFor(need).has_value()) return Reason::kReclaimPending;
  return HoldersByModel().empty() ? Reason::kCapacity : Reason::kHeldByLeases;
}

std::string DeviceStore::HintFor(Reason reason, Bytes need) const {
  const std::string& device = device_.info().name;
  if (reason == Reason::kBackend) {
    return absl::StrCat("it fits once other programs use less of ", device,
                        ", or weights are given no more than is there");
  }
  if (reason == Reason::kReclaimPending) {
    return "the bytes are on their way back: a call that waits for longer gets them";
  }
  if (need > arena_.capacity()) {
    return absl::StrCat("it can only fit if weights get more of ", device);
  }
  Bytes idle;
  Bytes loading;
  Bytes quarantined;
  std::vector<std::string> idle_models;
  for (const Region* region : regions_.All()) {
    if (region->holding() == Holding::kLoading) loading += region->bytes;
    if (region->holding() == Holding::kQuarantined) quarantined += region->bytes;
    if (region->holding() != Holding::kIdle) continue;
    if (!IdleTooLong(*region)) idle += region->bytes;
    idle_models.push_back(
        absl::StrCat(models_.FullNameOf(region->id), " (", FormatBytes(region->bytes), ")"));
  }
  std::vector<std::string> hints;
  if (!idle_models.empty()) {
    hints.push_back(absl::StrCat("unloading would help: ", absl::StrJoin(idle_models, ", ")));
    if (times_.idle_unload_after != kForever) {
      hints.push_back(
          absl::StrCat("what is not pinned makes way by itself once it has been idle"
                       " for ",
                       FormatSpan(times_.idle_unload_after)));
    }
  }
  if (need > LargestLoadable() + idle) {
    if (!HoldersByModel().empty()) {
      // Idle models make way at once then.
      const bool by_itself = times_.idle_unload_after == Duration::zero();
      hints.emplace_back(by_itself ? "it fits once the holders are done"
                                   : "it fits once the holders are done and their models are"
                                     " unloaded");
    }
    if (!quarantined.zero()) {
      hints.emplace_back("quarantined bytes come back once their holders unmap them or end");
    }
    if (!loading.zero()) {
      hints.emplace_back("unloading what is loading would help");
    }
  }
  if (!arena_.stranded().zero()) {
    hints.emplace_back(
        "stranded bytes are free once whoever has maps or file descriptors of them lets go or"
        " ends");
  }
  return absl::StrJoin(hints, "; ");
}

Status DeviceStore::Explain(Reason reason, Bytes need, const Status& cause) const {
  const Ledger ledger = LedgerNow();
  Bytes idle;
  Bytes leased;
  Bytes quarantined;
  Bytes loading;
  for (const Region* region : regions_.All()) {
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
        break;
      case Holding::kRetained:
      case Holding::kLost:
        break;
    }
  }
  const Bytes largest = LargestLoadable();
  std::string message =
      absl::StrCat("no room on ", device_.info().name, " for ", FormatBytes(need), ": ");
  if (!cause.ok()) absl::StrAppend(&message, cause.message(), "; ");
  absl::StrAppend(&message, "capacity ", FormatBytes(ledger.capacity), ", free ",
                  FormatBytes(ledger.free()), ", retained ", FormatBytes(ledger.retained),
                  ", idle ", FormatBytes(idle), ", leased ", FormatBytes(leased), ", loading ",
                  FormatBytes(loading), ", quarantined ", FormatBytes(quarantined), ", stranded ",
                  FormatBytes(ledger.stranded), "; the largest model that would fit now has ",
                  FormatBytes(largest));
  const std::string holders = absl::StrJoin(HoldersByModel(), ", ");
  if (!holders.empty()) absl::StrAppend(&message, "; held by ", holders);
  const std::string hint = HintFor(reason, need);
  if (!hint.empty()) absl::StrAppend(&message, "; ", hint);
  ErrorValues values = {{"device", device_.info().name},
                        {"needed_bytes", absl::StrCat(need.count())},
                        {"capacity_bytes", absl::StrCat(ledger.capacity.count())},
                        {"free_bytes", absl::StrCat(ledger.free().count())},
                        {"largest_free_bytes", absl::StrCat(ledger.largest_free.count())},
                        {"retained_bytes", absl::StrCat(ledger.retained.count())},
                        {"reclaimable_bytes", absl::StrCat(Reclaimable().count())},
                        {"idle_bytes", absl::StrCat(idle.count())},
                        {"leased_bytes", absl::StrCat(leased.count())},
                        {"loading_bytes", absl::StrCat(loading.count())},
                        {"quarantined_bytes", absl::StrCat(quarantined.count())},
                        {"stranded_bytes", absl::StrCat(ledger.stranded.count())},
                        {"largest_loadable_bytes", absl::StrCat(largest.count())},
                        {"hint", hint}};
  if (!holders.empty()) values.emplace_back("holders", holders);
  const ErrorValues of_cause = DetailOf(cause).value_or(ErrorDetail{}).values;
  values.insert(values.end(), of_cause.begin(), of_cause.end());
  return Error(reason, message, values);
}

Status DeviceStore::RefuseRoom(Bytes need) const {
  return Explain(ReasonFor(need), need, absl::OkStatus());
}

DeviceFit DeviceStore::Fit(const Layout& layout) const {
  const MutexLock lock(mutex_);
  DeviceFit fit = FitBytes(layout.total());
  const Region* const adoptable = lost_.ok() && !cordoned_ ? FindAdoptable(layout) : nullptr;
  if (adoptable != nullptr) {
    fit.verdict = FitVerdict::kNow;
    fit.explanation =
        absl::StrCat("it takes over the memory of ", models_.FullNameOf(adoptable->id));
  }
  return fit;
}

DeviceFit DeviceStore::Fit(Bytes size) const {
  const MutexLock lock(mutex_);
  return FitBytes(size);
}

DeviceFit DeviceStore::FitBytes(Bytes size) const {
  const Bytes need = arena_.RegionBytes(size);
  const Ledger ledger = LedgerNow();
  DeviceFit fit{.device = device_.info().name,
                .needed = need,
                .capacity = ledger.capacity,
                .free = ledger.free(),
                .largest_now = {},
                .largest = {},
                .explanation = {}};
  if (!lost_.ok()) {
    fit.verdict = FitVerdict::kDeviceLost;
    fit.explanation = std::string(lost_.message());
    return fit;
  }
  if (cordoned_) {
    fit.verdict = FitVerdict::kCordoned;
    fit.explanation = std::string(RefuseCordoned(device_.info().name, need).message());
    return fit;
  }
  fit.largest_now = AlignDown(arena_.available(), device_.info().granule);
  fit.largest = LargestLoadable();
  if (need <= arena_.available()) {
    fit.explanation = absl::StrCat(FormatBytes(arena_.available()), " are there for the taking");
    return fit;
  }
  const std::optional<std::vector<VictimCandidate>> victims = VictimsFor(need);
  if (!victims.has_value()) {
    fit.verdict = need > arena_.capacity() ? FitVerdict::kNever : FitVerdict::kWhenReleased;
    fit.explanation = std::string(RefuseRoom(need).message());
    return fit;
  }
  fit.verdict = FitVerdict::kAfterReclaim;
  std::vector<std::string> names;
  for (const VictimCandidate& victim : *victims) names.push_back(models_.FullNameOf(victim.region));
  fit.explanation = names.empty() ? "it fits once bytes that are on their way back have come"
                                  : absl::StrCat("it fits once these made way, which nobody uses: ",
                                                 absl::StrJoin(names, ", "));
  return fit;
}

}  // namespace tenure
