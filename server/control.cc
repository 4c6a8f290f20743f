#include "server/control.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <spdlog/spdlog.h>
#include <thread>
#include <utility>

namespace tenure {
namespace {

constexpr Duration kPollInterval = std::chrono::milliseconds(10);

}  // namespace

Control::Control(Store& store, const SessionRegistry& sessions, const Clock& clock,
                 Duration drain_timeout, AskToRelease ask_to_release, Reread reread)
    : store_(store),
      sessions_(sessions),
      clock_(clock),
      ask_to_release_(std::move(ask_to_release)),
      reread_(std::move(reread)),
      drain_timeout_(drain_timeout) {}

StatusOr<std::vector<Control::Stores>> Control::Named(const std::string& device) const {
  std::vector<Stores> named;
  for (size_t i = 0; i < store_.devices().size(); ++i) {
    const Stores stores{store_.devices()[i].get(), store_.runtimes()[i].get()};
    if (device.empty() || stores.name() == device) named.push_back(stores);
  }
  if (!named.empty()) return named;
  return Error(Reason::kDeviceNotFound, absl::StrCat("no such device: ", device),
               {{"device", device}});
}

StatusOr<bool> Control::SetCordoned(const std::string& device, bool cordoned) {
  if (device.empty()) return Error(Reason::kInvalidRequest, "the request names no device");
  TENURE_ASSIGN_OR_RETURN(const std::vector<Stores> named, Named(device));
  const Stores& stores = named.front();
  const bool before = stores.runtime->cordoned();
  stores.weights->SetCordoned(cordoned);
  stores.runtime->SetCordoned(cordoned);
  if (before != cordoned) {
    spdlog::info("device {} name={}", cordoned ? "cordoned" : "uncordoned", device);
  }
  return before != cordoned;
}

void Control::Ask(const Stores& stores, Duration within) const {
  for (const SessionView& session : sessions_.Sessions()) {
    const RegionUse weights = stores.weights->UseBy(session.id);
    const PoolTable::Use runtime = stores.runtime->UseBy(session.id);
    if (weights.leases + weights.shares + runtime.pools + runtime.shares == 0) continue;
    ask_to_release_(session.id, stores.name(), within);
  }
  stores.runtime->AskForGranted();
}

bool Control::Empty(const Stores& stores) {
  const DeviceStore::Snapshot weights = stores.weights->TakeSnapshot();
  const Ledger runtime = stores.runtime->TakeSnapshot().ledger;
  const Bytes held = weights.ledger.allocated() + runtime.allocated() + runtime.pooled;
  return held.zero() && weights.running_loads + weights.queued_loads == 0 &&
         !stores.weights->mapped();
}

Control::Drained Control::ResultOf(const Stores& stores) {
  const DeviceStore::Snapshot weights = stores.weights->TakeSnapshot();
  Drained result{.device = stores.name(),
                 .drained = Empty(stores),
                 .running_loads = weights.running_loads + weights.queued_loads,
                 .holders = {}};
  for (const ModelView& model : stores.weights->Models()) {
    for (const tenure::Holder& holder : model.holders) {
      result.holders.push_back({.arena = "weights",
                                .session = holder.session,
                                .program = holder.program,
                                .instance = holder.instance,
                                .model = absl::StrCat(model.name, "@", model.revision.value()),
                                .leases = holder.leases,
                                .bytes = model.region_bytes,
                                .quarantined = holder.quarantined});
    }
  }
  for (const RuntimeStore::PoolHolder& holder : stores.runtime->Holders()) {
    result.holders.push_back({.arena = "runtime",
                              .session = holder.session,
                              .program = holder.identity.program,
                              .instance = holder.identity.instance,
                              .model = "",
                              .leases = 0,
                              .bytes = holder.held,
                              .quarantined = holder.quarantined});
  }
  return result;
}

StatusOr<std::vector<Control::Drained>> Control::Drain(const std::string& device, Duration timeout,
                                                       const CallLimits& limits) {
  TENURE_ASSIGN_OR_RETURN(const std::vector<Stores> named, Named(device));
  const Instant give_up = std::min(After(clock_.Now(), timeout), limits.deadline);
  for (const Stores& stores : named) {
    TENURE_RETURN_IF_ERROR(SetCordoned(stores.name(), true).status());
    stores.weights->UnloadAll();
    Ask(stores, give_up - clock_.Now());
  }
  while (true) {
    const bool empty =
        std::all_of(named.begin(), named.end(), [](const Stores& each) { return Empty(each); });
    if (empty || clock_.Now() >= give_up) break;
    TENURE_RETURN_IF_ERROR(limits.Check(clock_.Now()));
    std::this_thread::sleep_for(kPollInterval);
    for (const Stores& stores : named) {
      // What was on its way when the device was cordoned has come online since; and what was
      // leased is mapped without a lease.
      stores.weights->UnloadAll();
      stores.weights->RecallIdle();
      stores.runtime->RecallIdle();
    }
  }
  std::vector<Drained> results;
  for (const Stores& stores : named) {
    results.push_back(ResultOf(stores));
    spdlog::info("device drained name={} empty={} holders={} running_loads={}", stores.name(),
                 results.back().drained, results.back().holders.size(),
                 results.back().running_loads);
  }
  return results;
}

StatusOr<std::vector<Control::Trimmed>> Control::Trim(const std::string& device, bool retained,
                                                      const CallLimits& limits) {
  TENURE_ASSIGN_OR_RETURN(const std::vector<Stores> named, Named(device));
  std::vector<Trimmed> results;
  for (const Stores& stores : named) {
    const Bytes weights = stores.weights->Trim(retained, limits);
    const Bytes runtime = stores.runtime->Trim(limits);
    spdlog::info("device trimmed name={} retained={} weights_bytes={} runtime_bytes={}",
                 stores.name(), retained, weights.count(), runtime.count());
    results.push_back({.device = stores.name(), .weights = weights, .runtime = runtime});
  }
  return results;
}

}  // namespace tenure
