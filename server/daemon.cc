#include "server/daemon.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <grp.h>
#include <grpc/support/time.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>
#include <system_error>
#include <thread>
#include <utility>

#include "server/device_plan.h"
#include "server/event_lines.h"
#include "server/http_pages.h"

namespace tenure {
namespace {

// Of what happened; the rest waits for the next tick.
constexpr size_t kLinesPerTick = 1000;
constexpr Duration kTickInterval = std::chrono::milliseconds(20);
// Each takes two fds and a few KiB.
constexpr size_t kMaxSessions = 4096;
// 100,000 buffers to plan, of names up to 128 bytes.
constexpr int kMostRequestBytes = 16 << 20;
// How long calls in flight may end by themselves once everything else is drained.
constexpr int64_t kLastCallsMs = 200;
// The name under which the health service tells whether what is wanted is online.
constexpr char kReadyService[] = "ready";

std::string PinPath(const Config& config) { return config.directory + "/pinned.yaml"; }

void LogDevices(const Store& store) {
  for (size_t i = 0; i < store.devices().size(); ++i) {
    const DeviceInfo& info = store.devices()[i]->device_info();
    const DeviceStore::Snapshot now = store.devices()[i]->TakeSnapshot();
    const Bytes weights = now.ledger.capacity;
    const Bytes runtime = store.runtimes()[i]->TakeSnapshot().ledger.capacity;
    spdlog::info(
        "device name={} backend={} uuid={} total_bytes={} weights_bytes={} runtime_bytes={} "
        "granule_bytes={}",
        info.name, info.backend, info.uuid, info.total.count(), weights.count(), runtime.count(),
        info.granule.count());
    if (weights + runtime + now.foreign > info.total) {
      spdlog::warn("{} has less left than its arenas may take: others use {} of {}", info.name,
                   FormatBytes(now.foreign), FormatBytes(info.total));
    }
  }
}

// nullopt for no name. A number need not be anybody's.
StatusOr<std::optional<gid_t>> FindGroup(const std::string& name) {
  if (name.empty()) return std::optional<gid_t>();
  gid_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size()) return std::optional(number);
  const struct group* const found = getgrnam(name.c_str());
  if (found != nullptr) return std::optional(found->gr_gid);
  return Error(Reason::kInvalidRequest, "socket.group: there is no group " + name);
}

}  // namespace

StatusOr<std::vector<ModelRoot>> CanonicalRoots(const Config& config) {
  std::vector<ModelRoot> roots;
  for (const RootConfig& root : config.model_roots) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(root.path, error);
    if (error || !std::filesystem::is_directory(path, error)) {
      return Error(Reason::kInvalidRequest,
                   "model_roots: " + root.name + " is no directory that can be read: " + root.path);
    }
    roots.push_back({root.name, path.string()});
  }
  return roots;
}

StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config, const ConfigSources& sources,
                                                ServiceNotify notify) {
  TENURE_ASSIGN_OR_RETURN(std::vector<ModelRoot> roots, CanonicalRoots(config));
  TENURE_ASSIGN_OR_RETURN(const Machine machine, LookAtMachine(config));
  TENURE_ASSIGN_OR_RETURN(const std::vector<DevicePlan> plans, PlanDevices(config, machine));
  std::string boot_id = RandomHex(16);
  TENURE_ASSIGN_OR_RETURN(DaemonLock lock, DaemonLock::Take(config.directory, boot_id));

  // Pins that cannot be read would be lost with the next one that is saved.
  const Status pins = PinFile(PinPath(config)).Read().status();
  if (HasReason(pins, Reason::kBackend)) return pins;

  if (config.devices.empty() && !machine.gpus.ok()) {
    spdlog::info("{}; the machine's own memory serves",
                 std::string(machine.gpus.status().message()));
  }
  auto clock = std::make_unique<const SteadyClock>();
  TENURE_ASSIGN_OR_RETURN(std::vector<DeviceOptions> devices, MakeDevices(plans, *clock));
  for (const DeviceOptions& each : devices) {
    if (each.device->stranded(SegmentUse::kWeights).has_value()) continue;
    spdlog::warn("memory that clients keep after giving it back is not seen device={} backend={}",
                 each.device->info().name, each.device->info().backend);
  }
  std::unique_ptr<Daemon> daemon(new Daemon(config, sources, std::move(notify), std::move(lock),
                                            std::move(clock), std::move(boot_id), std::move(roots),
                                            std::move(devices)));
  TENURE_RETURN_IF_ERROR(daemon->Serve());
  return daemon;
}

Daemon::Daemon(const Config& config, const ConfigSources& sources, ServiceNotify notify,
               DaemonLock lock, std::unique_ptr<const Clock> clock, std::string boot_id,
               std::vector<ModelRoot> roots, std::vector<DeviceOptions> devices)
    : config_(config),
      sources_(sources),
      notify_(std::move(notify)),
      lock_(std::move(lock)),
      clock_(std::move(clock)),
      files_(MakePosixFileLayer()),
      sessions_(*clock_, kMaxSessions),
      handles_(sessions_, *clock_),
      store_(StoreOptions{std::move(roots), config.copy_threads}, std::move(devices), *clock_,
             *files_, handles_),
      wanted_(store_, PinPath(config), config.models),
      gate_(std::move(boot_id), sessions_, *clock_),
      refusals_(sessions_, *clock_,
                [this](RefusalId refusal) {
                  if (recorder_ != nullptr) recorder_->OnRefusal(refusal);
                }),
      control_(
          store_, sessions_, *clock_, config.drain_timeout,
          [this](SessionId session, const std::string& device, Duration within) {
            handles_.AskToRelease(session, device, within);
          },
          [this] { return Reload(); }),
      current_(config),
      longest_heartbeat_(config.heartbeat_interval),
      planner_(config.planner, *clock_),
      maps_(store_, *clock_, gate_.boot_id()),
      metrics_(store_, sessions_, rpcs_, reloads_, planner_,
               MetricsOptions{.model_bytes = config.metrics_model_bytes}) {
  gate_.SetAdmin(config.admin);
  const FlightRecorderConfig& recorder = config.flight_recorder;
  if (recorder.kept == 0) return;
  recorder_ = std::make_unique<FlightRecorder>(
      FlightRecorderOptions{.directory = recorder.directory.empty() ? config.directory + "/flight"
                                                                    : recorder.directory,
                            .kept = recorder.kept},
      store_, sessions_, refusals_, maps_, *clock_);
}

Status Daemon::Serve() {
  const std::string grpc_path = config_.directory + "/grpc.sock";
  const std::string handle_path = config_.directory + "/handle.sock";
  TENURE_RETURN_IF_ERROR(lock_.ClearSocketPath(grpc_path));
  TENURE_RETURN_IF_ERROR(lock_.ClearSocketPath(handle_path));

  TENURE_ASSIGN_OR_RETURN(const std::optional<gid_t> group, FindGroup(config_.socket.group));
  ticker_.emplace(kTickInterval, [this] { Tick(); });
  TENURE_RETURN_IF_ERROR(ServeHttp());
  HandleServerOptions options;
  options.path = handle_path;
  options.mode = config_.socket.mode;
  options.group = group;
  options.boot_id = boot_id();
  options.heartbeat_interval = config_.heartbeat_interval;
  options.death_grace = config_.death_grace;
  TENURE_RETURN_IF_ERROR(handles_.Start(store_, options));
  TENURE_RETURN_IF_ERROR(ServeGrpc(grpc_path, group));

  LogDevices(store_);
  spdlog::info("started version={} boot_id={} directory={} metrics_address={}", TENURE_VERSION,
               boot_id(), config_.directory, metrics_address_.empty() ? "off" : metrics_address_);
  SetReady(false);
  wanted_.Start([this](bool ready) { SetReady(ready); });
  serving_.store(true);
  notify_.Ready("serving in " + config_.directory);
  return absl::OkStatus();
}

Status Daemon::ServeHttp() {
  if (config_.metrics_address.empty()) return absl::OkStatus();
  HttpPages pages = MakeHttpPages({.store = store_,
                                   .wanted = wanted_,
                                   .metrics = metrics_,
                                   .maps = maps_,
                                   .boot_id = boot_id(),
                                   .serving = [this] { return serving_.load(); }});
  TENURE_ASSIGN_OR_RETURN(http_, HttpServer::Start(config_.metrics_address, std::move(pages)));
  metrics_address_ = http_->address();
  return absl::OkStatus();
}

Status Daemon::ServeGrpc(const std::string& path, std::optional<gid_t> group) {
  models_.emplace(store_, wanted_, refusals_, gate_, *clock_, config_.max_watchers);
  leases_.emplace(store_, refusals_, gate_, *clock_);
  plans_.emplace(planner_, gate_);
  admin_.emplace(store_, wanted_, sessions_, refusals_, gate_, maps_, *clock_, metrics_address_,
                 control_);

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMostRequestBytes);
  grpc_listener_.emplace(builder);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(rpcs_.NewInterceptorFactory());
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  builder.RegisterService(&*models_);
  builder.RegisterService(&*leases_);
  builder.RegisterService(&*plans_);
  builder.RegisterService(&*admin_);
  grpc_ = builder.BuildAndStart();
  if (grpc_ == nullptr) return Error(Reason::kBackend, "cannot start gRPC");
  return grpc_listener_->Start(path, config_.socket.mode, group);
}

void Daemon::SetReady(bool ready) {
  grpc_->GetHealthCheckService()->SetServingStatus(kReadyService, ready);
}

bool Daemon::HasLostDevice() const {
  const auto& devices = store_.devices();
  return std::any_of(devices.begin(), devices.end(),
                     [](const auto& device) { return !device->Lost().ok(); });
}

void Daemon::Tick() {
  store_.Tick();
  notify_.Alive(clock_->Now());
  const std::vector<Event> events = store_.event_log().After(logged_events_, kLinesPerTick);
  if (events.empty()) return;
  LogEvents(events);
  logged_events_ = events.back().sequence;
}

bool Daemon::Quiet() const {
  for (const auto& device : store_.devices()) {
    const DeviceStore::Snapshot now = device->TakeSnapshot();
    if (now.live_leases + now.queued_loads + now.running_loads > 0) return false;
  }
  return true;
}

void Daemon::Stop(Duration timeout) {
  if (grpc_ == nullptr) return;
  const Instant started = clock_->Now();
  {
    const MutexLock lock(reloading_);
    stopping_ = true;
  }
  notify_.Stopping("waiting for leases and loads to end");
  spdlog::info("stopping drain_timeout_ms={}",
               std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count());
  // Whoever routes to it is told before anybody is refused.
  serving_.store(false);
  grpc_->GetHealthCheckService()->SetServingStatus(false);
  gate_.CloseForLoads();
  wanted_.Stop();
  SetReady(false);  // the last wanted model may have come online since
  handles_.Drain(timeout);
  while (!Quiet() && clock_->Now() - started < timeout) std::this_thread::sleep_for(kTickInterval);

  grpc_listener_->Stop();
  grpc_->Shutdown(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(kLastCallsMs, GPR_TIMESPAN)));
  grpc_.reset();
  handles_.Stop();
  spdlog::info("stopped quiet={} seconds={:.3f}", Quiet(),
               std::chrono::duration<double>(clock_->Now() - started).count());
}

Daemon::~Daemon() {
  if (grpc_ != nullptr) Stop(Duration::zero());
  http_.reset();
  ticker_.reset();
  handles_.Stop();
}

}  // namespace tenure
