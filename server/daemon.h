#pragma once

#include <atomic>
#include <cstdint>
#include <grpcpp/server.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/store/store.h"
#include "server/admin_service.h"
#include "server/config.h"
#include "server/config_changes.h"
#include "server/config_sources.h"
#include "server/control.h"
#include "server/daemon_lock.h"
#include "server/flight_recorder.h"
#include "server/gate.h"
#include "server/grpc_listener.h"
#include "server/handle_server.h"
#include "server/http_server.h"
#include "server/lease_service.h"
#include "server/memory_map.h"
#include "server/metrics.h"
#include "server/model_service.h"
#include "server/plan_service.h"
#include "server/planner.h"
#include "server/refusal_log.h"
#include "server/reload_log.h"
#include "server/rpc_metrics.h"
#include "server/service_notify.h"
#include "server/session_registry.h"
#include "server/ticker.h"
#include "server/wanted_models.h"

namespace tenure {

// The model roots with canonical paths. INVALID_REQUEST for one that is no directory.
StatusOr<std::vector<ModelRoot>> CanonicalRoots(const Config& config);

// A running tenured: from Start on it serves `grpc.sock` and `handle.sock` in its directory, and
// HTTP, and brings online what is configured and what was pinned before. Start, Stop and the
// destructor belong to one thread.
class Daemon {
 public:
  // `sources`: what the configuration is read from again when it is to be read anew. Told to
  // `notify`: how the service is. REQUIRES: CheckConfig(config) is OK. Fails if another daemon
  // serves the directory, and with the faults that only the machine shows.
  static StatusOr<std::unique_ptr<Daemon>> Start(const Config& config,
                                                 const ConfigSources& sources = {},
                                                 ServiceNotify notify = {"", kForever});
  // Stops at once, unless Stop did.
  ~Daemon();

  // Takes no loads any more, is not healthy, asks every Session to release what it can, and stops
  // when no load runs and no lease lives, after `timeout` at the latest. What clients have mapped
  // stays mapped.
  void Stop(Duration timeout);

  // Reads the configuration anew and takes over what can change in a running daemon: all of it, or
  // nothing. INVALID_REQUEST as Gather; RESTART_NEEDED with a line for each change that needs a
  // restart; SHUTTING_DOWN. May be called from any thread.
  StatusOr<std::vector<ConfigChange>> Reload();

  // As configured by now.
  Duration drain_timeout() const { return control_.drain_timeout(); }

  const std::string& boot_id() const { return gate_.boot_id(); }
  // True if a Device was lost: calls to its driver may never return, so that this object cannot be
  // destroyed.
  bool HasLostDevice() const;
  // Where HTTP is served, /metrics among it; empty if it is not.
  const std::string& metrics_address() const { return metrics_address_; }

 private:
  Daemon(const Config& config, const ConfigSources& sources, ServiceNotify notify, DaemonLock lock,
         std::unique_ptr<const Clock> clock, std::string boot_id, std::vector<ModelRoot> roots,
         std::vector<DeviceOptions> devices);
  Status Serve();
  Status ServeHttp();
  Status ServeGrpc(const std::string& path, std::optional<gid_t> group);
  void SetReady(bool ready);
  bool Quiet() const;
  void Tick();

  // daemon_reload.cc
  StatusOr<std::vector<ConfigChange>> TryReload() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reloading_);
  void TakeOver(const Config& config) ABSL_EXCLUSIVE_LOCKS_REQUIRED(reloading_);

  const Config config_;  // as it was at the start
  const ConfigSources sources_;
  ServiceNotify notify_;
  const DaemonLock lock_;
  const std::unique_ptr<const Clock> clock_;
  const std::unique_ptr<FileLayer> files_;
  SessionRegistry sessions_;
  HandleServer handles_;
  Store store_;
  WantedModels wanted_;
  Gate gate_;
  RefusalLog refusals_;
  ReloadLog reloads_;
  Control control_;

  Mutex reloading_;  // one reload at a time
  Config current_ ABSL_GUARDED_BY(reloading_);
  Duration longest_heartbeat_ ABSL_GUARDED_BY(reloading_);  // that Sessions were told
  bool stopping_ ABSL_GUARDED_BY(reloading_) = false;

  RpcMetrics rpcs_;
  Planner planner_;
  const MapMaker maps_;
  const Metrics metrics_;
  std::unique_ptr<FlightRecorder> recorder_;  // null: none is wanted
  std::atomic<bool> serving_ = false;

  std::string metrics_address_;
  uint64_t logged_events_ = 0;  // of the ticker alone: the last that has its line
  std::optional<ModelService> models_;
  std::optional<LeaseService> leases_;
  std::optional<PlanService> plans_;
  std::optional<AdminService> admin_;
  // What calls into the members above, in the order in which they start.
  std::optional<Ticker> ticker_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<grpc::Server> grpc_;
  std::optional<GrpcListener> grpc_listener_;
};

}  // namespace tenure
