#include <absl/strings/str_cat.h>

#include "core/store/device_store.h"

namespace tenure {

Status DeviceStore::ModelNotFound(const std::string& name, Revision revision) const {
  const std::string wanted = revision.valid() ? absl::StrCat(name, "@", revision.value()) : name;
  return Error(Reason::kModelNotFound,
               absl::StrCat("no such model on ", device_.info().name, ": ", wanted),
               {{"model", wanted}, {"device", device_.info().name}});
}

const Model* DeviceStore::FindModel(const std::string& name, Revision revision) const {
  if (revision.valid()) return models_.Find(name, revision);
  if (const Model* current = models_.Current(name)) return current;
  const std::vector<const Model*> named = models_.Named(name);
  return named.empty() ? nullptr : named.back();
}

std::vector<Holder> DeviceStore::HoldersOf(RegionId region) const {
  std::vector<Holder> holders;
  for (const SessionUse& use : leases_.SessionsUsing(region)) {
    if (use.leases == 0 && !use.quarantined) continue;
    const SessionIdentity& identity = identities_.at(use.session);
    holders.push_back(Holder{.session = use.session,
                             .program = identity.program,
                             .instance = identity.instance,
                             .leases = use.leases,
                             .quarantined = use.quarantined});
  }
  return holders;
}

ModelView DeviceStore::ViewOf(const Model& model) const {
  const Region& region = *regions_.Find(model.region);
  ModelView view{.name = model.name,
                 .revision = model.revision,
                 .state = region.state,
                 .device = device_.info().name,
                 .path = model.path,
                 .source = model.source,
                 .layout = region.layout,
                 .content = region.content,
                 .region = region.id,
                 .generation = region.generation,
                 .region_bytes = region.bytes,
                 .pinned = model.pinned,
                 .retain_ttl = model.retain_ttl,
                 .holders = HoldersOf(region.id),
                 .expires_in = {}};
  const bool expiring =
      region.state == RegionState::kRetained || region.state == RegionState::kEmpty;
  if (expiring && region.expires != kNever) {
    view.expires_in = std::max(Duration::zero(), Duration(region.expires - clock_.Now()));
  }
  return view;
}

std::vector<ModelView> DeviceStore::Models() const {
  const MutexLock lock(mutex_);
  std::vector<ModelView> views;
  for (const Model* model : models_.All()) views.push_back(ViewOf(*model));
  return views;
}

StatusOr<ModelView> DeviceStore::GetModel(const std::string& name, Revision revision) const {
  const MutexLock lock(mutex_);
  const Model* model = FindModel(name, revision);
  if (model == nullptr) return ModelNotFound(name, revision);
  return ViewOf(*model);
}

std::optional<LoadProgress> DeviceStore::ProgressOf(const std::string& name) const {
  const MutexLock lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->request.name == name) return job->Progress(clock_.Now());
  }
  return std::nullopt;
}

Ledger DeviceStore::LedgerNow() const {
  if (!lost_.ok()) {
    Ledger gone;
    gone.lost = arena_.capacity();
    return gone;
  }
  Ledger ledger = regions_.ledger();
  ledger.capacity = arena_.capacity();
  ledger.cached = arena_.cached() + arena_.leaving();
  ledger.unbacked = arena_.unbacked();
  ledger.stranded = arena_.stranded();
  ledger.reserved = arena_.reserved();
  // Regions are made of Segments that clients stitch, so no free byte is out of reach.
  ledger.largest_free = ledger.free();
  return ledger;
}

DeviceStore::Snapshot DeviceStore::TakeSnapshot() const {
  Snapshot snapshot;
  snapshot.backend = device_.counters();
  snapshot.foreign = device_.foreign();
  const MutexLock lock(mutex_);
  snapshot.ledger = LedgerNow();
  snapshot.peaks = {.reserved = arena_.peak_reserved(), .allocated = regions_.peak_allocated()};
  snapshot.segments = regions_.segments();
  snapshot.cached_segments = arena_.cached_segments();
  snapshot.counters = counters_;
  snapshot.models = regions_.CountByState();
  snapshot.lost = lost_;
  snapshot.cordoned = cordoned_;
  snapshot.live_leases = leases_.live_leases();
  for (const auto& job : jobs_) ++(job->running ? snapshot.running_loads : snapshot.queued_loads);
  return snapshot;
}

void DeviceStore::ForgetPeaks() {
  const MutexLock lock(mutex_);
  arena_.ForgetPeak();
  regions_.ForgetPeak();
}

RegionUse DeviceStore::UseBy(SessionId session) const {
  const MutexLock lock(mutex_);
  return leases_.UseBy(session);
}

void DeviceStore::Validate() const {
  const MutexLock lock(mutex_);
  arena_.Validate();
  regions_.Validate();
  leases_.Validate();
  const Ledger ledger = LedgerNow();
  TENURE_CHECK(ledger.capacity ==
               ledger.allocated() + ledger.retained + ledger.free() + ledger.stranded);
  TENURE_CHECK(!lost_.ok() || arena_.claimed() == ledger.allocated() + ledger.retained);
  std::map<RegionId, uint32_t> exporting;
  exports_.ForEachUsingMemory([&](const Export& exported) { ++exporting[exported.share.region]; });
  for (const Region* region : regions_.All()) {
    TENURE_CHECK(region->exports == exporting[region->id]);
    const RegionUse use = leases_.UseOf(region->id);
    TENURE_CHECK(region->leases == use.leases && region->shares == use.shares &&
                 region->quarantined_shares == use.quarantined_shares);
    const Model* model = models_.OfRegion(region->id);
    TENURE_CHECK(model != nullptr);
    TENURE_CHECK((region->state == RegionState::kActive) ==
                 (models_.Current(model->name) == model));
    const bool readable =
        region->state == RegionState::kActive || region->state == RegionState::kDraining;
    TENURE_CHECK(region->leases == 0 || readable);
    TENURE_CHECK(region->state != RegionState::kDraining || region->leases > 0);
    TENURE_CHECK(!readable || region->content.has_value());
  }
  TENURE_CHECK(models_.All().size() == regions_.All().size());
}

}  // namespace tenure
