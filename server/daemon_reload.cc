#include <absl/strings/str_join.h>
#include <algorithm>
#include <spdlog/spdlog.h>
#include <utility>

#include "server/daemon.h"
#include "server/device_plan.h"
#include "server/log.h"

namespace tenure {

StatusOr<std::vector<ConfigChange>> Daemon::Reload() {
  const MutexLock lock(reloading_);
  if (stopping_) return Error(Reason::kShuttingDown, "the daemon is stopping");
  notify_.Reloading(clock_->Now());
  StatusOr<std::vector<ConfigChange>> changes = TryReload();
  reloads_.Record(changes.status());
  if (changes.ok()) {
    for (const ConfigChange& change : *changes) {
      spdlog::info("configuration changed key={} before=\"{}\" after=\"{}\"", change.key,
                   change.before, change.after);
    }
    spdlog::info("configuration read anew changes={}", changes->size());
  } else {
    spdlog::error("configuration not read anew, the old one stays: {}",
                  std::string(changes.status().message()));
  }
  notify_.Ready(changes.ok() ? "serving in " + config_.directory
                             : "serving in " + config_.directory +
                                   "; the configuration was not read anew: " +
                                   std::string(changes.status().message()));
  return changes;
}

StatusOr<std::vector<ConfigChange>> Daemon::TryReload() {
  TENURE_ASSIGN_OR_RETURN(const LoadedConfig next, Gather(sources_));
  ConfigChanges changes = Compare(current_, next);
  if (next.config.lease_ttl <= longest_heartbeat_) {
    const auto origin = next.origins.find("leases.ttl");
    changes.refusals.push_back(
        (origin == next.origins.end() ? Origin() : origin->second).Place() +
        ": leases.ttl: " + WriteDuration(next.config.lease_ttl) +
        " is too short for clients that were told to send a heartbeat every " +
        WriteDuration(longest_heartbeat_));
  }
  if (!changes.refusals.empty()) {
    return Error(Reason::kRestartNeeded, absl::StrJoin(changes.refusals, "\n"));
  }
  TakeOver(next.config);
  return std::move(changes.changes);
}

void Daemon::TakeOver(const Config& config) {
  ChangeLog(config.log);
  for (const auto& device : store_.devices()) device->SetTimes(WeightsTimesOf(config));
  for (const auto& runtime : store_.runtimes()) runtime->SetTimes(RuntimeTimesOf(config));
  gate_.SetAdmin(config.admin);
  control_.SetDrainTimeout(config.drain_timeout);
  planner_.SetBudget(config.planner.budget);
  models_->SetMaxWatchers(config.max_watchers);
  handles_.SetHeartbeatInterval(config.heartbeat_interval);
  longest_heartbeat_ = std::max(longest_heartbeat_, config.heartbeat_interval);
  wanted_.SetConfigured(config.models);
  current_ = config;
}

}  // namespace tenure
