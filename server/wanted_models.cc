#include "server/wanted_models.h"

#include <absl/strings/numbers.h>
#include <algorithm>
#include <spdlog/spdlog.h>
#include <utility>

namespace tenure {
namespace {

// How often it is looked whether there is room now.
constexpr Duration kPause = std::chrono::milliseconds(500);
// Of these, how many go by before a try that failed otherwise is repeated.
constexpr int kPausesPerLook = 10;

bool Means(const WantedModel& model, const std::string& name, const std::string& device) {
  return model.name == name && (model.device.empty() || device.empty() || model.device == device);
}

WantedModel PinOf(const ModelView& model) {
  return {.name = model.name,
          .path = model.source,
          .device = model.device,
          .pin = true,
          .retain_ttl = model.retain_ttl};
}

// True if trying again makes no sense until somebody does something about the model itself.
bool Hopeless(const Status& error) {
  return HasReason(error, Reason::kInvalidCheckpoint) ||
         HasReason(error, Reason::kUnsupportedDtype) ||
         HasReason(error, Reason::kPathOutsideRoots) || HasReason(error, Reason::kInvalidRequest) ||
         HasReason(error, Reason::kDeviceNotFound);
}

// What a load that was refused for want of room would have taken; nullopt for another error.
std::optional<Bytes> RoomNeeded(const Status& error) {
  if (!HasReason(error, Reason::kCapacity) && !HasReason(error, Reason::kHeldByLeases)) {
    return std::nullopt;
  }
  const ErrorValues values = DetailOf(error).value_or(ErrorDetail{}).values;
  uint64_t bytes = 0;
  for (const auto& [key, value] : values) {
    if (key == "needed_bytes" && absl::SimpleAtoi(value, &bytes)) return Bytes(bytes);
  }
  return std::nullopt;
}

}  // namespace

WantedModels::WantedModels(Store& store, const std::string& pin_path,
                           std::vector<WantedModel> configured)
    : store_(store), pins_(pin_path) {
  std::vector<WantedModel> all = configured;
  StatusOr<std::vector<WantedModel>> pinned = pins_.Read();
  if (!pinned.ok()) {
    spdlog::error("pinned models are not brought back: {}", std::string(pinned.status().message()));
    pinned = std::vector<WantedModel>();
  }
  const MutexLock lock(mutex_);
  configured_ = std::move(configured);
  for (WantedModel& model : *pinned) {
    if (!IsConfigured(model.name, model.device)) all.push_back(std::move(model));
  }
  for (WantedModel& model : all) pending_.push_back({.model = std::move(model), .error = {}});
}

WantedModels::~WantedModels() { Stop(); }

void WantedModels::Stop() {
  stopping_ = true;
  {
    const MutexLock telling(telling_);
    const MutexLock lock(mutex_);
    on_ready_ = nullptr;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  bool saved = false;
  {
    const MutexLock lock(mutex_);
    saved = save_error_.ok();
  }
  if (!saved) SavePinsSoon();
}

bool WantedModels::AwaitWork() {
  const MutexLock lock(mutex_);
  while (!stopping_ && pending_.empty() && save_error_.ok()) changed_.Wait(mutex_);
  return !stopping_;
}

void WantedModels::Start(std::function<void(bool ready)> on_ready) {
  {
    const MutexLock lock(mutex_);
    on_ready_ = std::move(on_ready);
  }
  TellIfReady();
  thread_ = std::thread([this] { Run(); });
}

void WantedModels::Run() {
  for (int pause = 0; AwaitWork(); ++pause) {
    std::vector<Pending> pending;
    bool saved = false;
    {
      const MutexLock lock(mutex_);
      pending = pending_;
      saved = save_error_.ok();
    }
    if (!saved) SavePinsSoon();
    for (const Pending& each : pending) {
      if (MayHelp(each, pause % kPausesPerLook == 0)) Try(each.model);
    }
    const MutexLock lock(mutex_);
    if (!stopping_) changed_.WaitFor(mutex_, kPause);
  }
}

bool WantedModels::MayHelp(const Pending& pending, bool look) const {
  if (pending.error.ok()) return true;
  if (Hopeless(pending.error)) return false;
  const std::optional<Bytes> needed = RoomNeeded(pending.error);
  if (!needed.has_value()) return look;
  return std::any_of(store_.devices().begin(), store_.devices().end(), [&](const auto& device) {
    const std::string& name = device->device_info().name;
    const Ledger ledger = device->TakeSnapshot().ledger;
    return (pending.model.device.empty() || pending.model.device == name) &&
           ledger.free() + ledger.retained >= *needed;
  });
}

void WantedModels::Try(const WantedModel& model) {
  {
    const MutexLock lock(mutex_);
    const auto found = FindPending(model);
    if (stopping_ || found == pending_.end()) return;  // settled meanwhile
    found->loading = true;
  }
  LoadRequest request;
  request.name = model.name;
  request.path = model.path;
  request.device = model.device;
  request.pin = model.pin;
  request.retain_ttl = model.retain_ttl;
  Finish(model, store_.Load(request, {.cancelled = [this] { return stopping_.load(); }}).status());
}

std::vector<WantedModels::Pending>::iterator WantedModels::FindPending(const WantedModel& model) {
  return std::find_if(pending_.begin(), pending_.end(),
                      [&](const Pending& each) { return each.model == model; });
}

void WantedModels::Finish(const WantedModel& model, const Status& result) {
  {
    MutexLock lock(mutex_);
    const auto withdrawn = std::find(withdrawn_.begin(), withdrawn_.end(), model);
    if (withdrawn != withdrawn_.end()) {
      withdrawn_.erase(withdrawn);
      lock.Unlock();
      return Withdraw(model);
    }
    const auto found = FindPending(model);
    if (found == pending_.end()) return;
    if (result.ok()) {
      pending_.erase(found);
      online_.push_back(model);
    } else {
      const bool new_error = found->error != result;
      found->loading = false;
      found->error = result;
      if (new_error) {
        spdlog::warn("wanted model is not online name={} message={}", model.name,
                     std::string(result.message()));
      }
    }
  }
  if (result.ok()) {
    spdlog::info("wanted model is online name={} path={}", model.name, model.path);
    SavePinsSoon();
  }
  TellIfReady();
}

WantedModel WantedModels::PinFor(const LoadRequest& load) const {
  const bool only_one = store_.devices().size() == 1;
  return {.name = load.name,
          .path = load.path,
          .device = only_one ? store_.devices().front()->device_info().name : load.device,
          .pin = true,
          .retain_ttl = load.retain_ttl};
}

Status WantedModels::OnLoading(const LoadRequest& load) {
  if (!load.pin || Configured(load.name, load.device)) return absl::OkStatus();
  const WantedModel pin = PinFor(load);
  {
    const MutexLock lock(mutex_);
    loading_.push_back(pin);
    if (std::find(saved_.begin(), saved_.end(), pin) != saved_.end()) return absl::OkStatus();
  }
  // The load itself says why it cannot be.
  if (!store_.Inspect(load).ok()) return absl::OkStatus();
  Status saved = SavePins();
  if (!saved.ok()) EndLoad(load);
  return saved;
}

void WantedModels::EndLoad(const LoadRequest& load) {
  if (!load.pin) return;
  const MutexLock lock(mutex_);
  const auto found = std::find(loading_.begin(), loading_.end(), PinFor(load));
  if (found != loading_.end()) loading_.erase(found);
}

void WantedModels::OnLoadFailed(const LoadRequest& load) {
  EndLoad(load);
  if (load.pin) SavePinsSoon();
}

void WantedModels::OnLoaded(const LoadRequest& load, const ModelView& model) {
  EndLoad(load);
  Settle(model.name, model.device);
  if (Configured(model.name, model.device)) return;
  {
    // Most loads change nothing about what is pinned.
    const MutexLock lock(mutex_);
    const bool saved = std::any_of(saved_.begin(), saved_.end(), [&](const WantedModel& each) {
      return model.pinned ? each == PinOf(model) : Means(each, model.name, model.device);
    });
    if (saved == model.pinned) return;
  }
  SavePinsSoon();
}

void WantedModels::OnUnloaded(const std::string& name, const std::string& device) {
  Settle(name, device);
  SavePinsSoon();
}

void WantedModels::Settle(const std::string& name, const std::string& device) {
  {
    const MutexLock lock(mutex_);
    if (pending_.empty()) return;
    std::erase_if(pending_, [&](const Pending& each) { return Means(each.model, name, device); });
  }
  TellIfReady();
}

bool WantedModels::Ready() const {
  return std::all_of(pending_.begin(), pending_.end(),
                     [](const Pending& each) { return Hopeless(each.error); });
}

void WantedModels::TellIfReady() {
  const MutexLock telling(telling_);
  std::function<void(bool ready)> tell;
  bool ready = false;
  {
    const MutexLock lock(mutex_);
    ready = Ready();
    if (ready == told_ready_ || !on_ready_) return;
    told_ready_ = ready;
    tell = on_ready_;
  }
  tell(ready);
}

void WantedModels::SetConfigured(const std::vector<WantedModel>& configured) {
  std::vector<WantedModel> gone;
  {
    const MutexLock lock(mutex_);
    const auto among = [](const std::vector<WantedModel>& models, const WantedModel& model) {
      return std::find(models.begin(), models.end(), model) != models.end();
    };
    const auto replaced = [&](const WantedModel& model) {
      return std::any_of(configured.begin(), configured.end(), [&](const WantedModel& each) {
        return each.name == model.name && each.device == model.device;
      });
    };
    for (const WantedModel& model : configured_) {
      if (among(configured, model)) continue;
      std::erase(online_, model);
      const auto pending = FindPending(model);
      if (pending == pending_.end()) {
        if (!replaced(model)) gone.push_back(model);
        continue;
      }
      // Whoever is loading it looks here at its end; what takes its place is loaded after it.
      if (pending->loading && !replaced(model)) withdrawn_.push_back(model);
      pending_.erase(pending);
    }
    for (const WantedModel& model : configured) {
      if (among(configured_, model)) continue;
      std::erase_if(pending_, [&](const Pending& each) {
        return Means(each.model, model.name, model.device);
      });
      pending_.push_back({.model = model, .error = {}});
    }
    configured_ = configured;
    changed_.NotifyAll();
  }
  for (const WantedModel& model : gone) Withdraw(model);
  TellIfReady();
  SavePinsSoon();
}

void WantedModels::Withdraw(const WantedModel& model) {
  const StatusOr<ModelView> view = store_.GetModel(model.name, Revision(), model.device);
  if (!view.ok() || view->state != RegionState::kActive || view->source != model.path) return;
  const StatusOr<UnloadResult> result = store_.Unload(model.name, view->revision, view->device);
  if (!result.ok()) return;  // gone meanwhile
  spdlog::info("model is not wanted any more name={} state={}", model.name,
               RegionStateName(result->state));
}

WantedModels::Progress WantedModels::GetProgress() const {
  const MutexLock lock(mutex_);
  return {.ready = Ready(), .wanted = online_.size() + pending_.size(), .pending = pending_};
}

bool WantedModels::Configured(const std::string& name, const std::string& device) const {
  const MutexLock lock(mutex_);
  return IsConfigured(name, device);
}

bool WantedModels::IsConfigured(const std::string& name, const std::string& device) const {
  return std::any_of(configured_.begin(), configured_.end(),
                     [&](const WantedModel& each) { return Means(each, name, device); });
}

// What is pinned is what the store says, what the last daemon left and is not back yet, and what is
// being loaded, which takes the place of another model of its name.
Status WantedModels::SavePins() {
  const MutexLock saving(saving_);
  std::vector<WantedModel> pinned;
  for (const ModelView& model : store_.Models()) {
    const bool kept = model.pinned && model.state == RegionState::kActive;
    if (kept && !Configured(model.name, model.device)) pinned.push_back(PinOf(model));
  }
  {
    const MutexLock lock(mutex_);
    for (const Pending& pending : pending_) {
      const WantedModel& model = pending.model;
      if (model.pin && !IsConfigured(model.name, model.device)) pinned.push_back(model);
    }
    for (const WantedModel& model : loading_) {
      std::erase_if(pinned,
                    [&](const WantedModel& each) { return Means(each, model.name, model.device); });
      pinned.push_back(model);
    }
  }
  TENURE_RETURN_IF_ERROR(pins_.Write(pinned));
  const MutexLock lock(mutex_);
  saved_ = std::move(pinned);
  if (!save_error_.ok()) spdlog::info("pinned models are saved again path={}", pins_.path());
  save_error_ = absl::OkStatus();
  return absl::OkStatus();
}

void WantedModels::SavePinsSoon() {
  const Status saved = SavePins();
  if (saved.ok()) return;
  const MutexLock lock(mutex_);
  if (save_error_ != saved) {
    spdlog::error("pinned models are not saved: {}", std::string(saved.message()));
  }
  save_error_ = saved;
  changed_.NotifyAll();
}

}  // namespace tenure
