#include "server/device_plan.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <set>
#include <utility>

namespace tenure {
namespace {

// Begins with where the Device stands, if it is said anywhere.
Status Refuse(const DeviceConfig& device, const std::string& what) {
  return Error(Reason::kInvalidRequest,
               absl::StrCat(device.place, device.place.empty() ? "" : ": ", "devices: ", what));
}

// Says how to learn more of a GPU that cannot be had.
Status WithAdvice(const Status& error) {
  return WithNote(error, "what this machine has for GPUs is told by", "tenured --check-device");
}

// One for each GPU, or one of the machine's own memory.
std::vector<DeviceConfig> DefaultDevices(const Machine& machine) {
  std::vector<DeviceConfig> devices;
  if (machine.gpus.ok()) {
    for (const FoundGpu& gpu : *machine.gpus) {
      DeviceConfig& device = devices.emplace_back();
      device.name = absl::StrCat("gpu:", devices.size() - 1);
      device.backend = Backend::kCuda;
      device.uuid = gpu.uuid;
    }
  }
  if (devices.empty()) devices.emplace_back();
  return devices;
}

// Gives each configured GPU to one Device.
class GpuChoice {
 public:
  explicit GpuChoice(const StatusOr<std::vector<FoundGpu>>& gpus) : gpus_(gpus) {}

  // The one whose UUID begins as `device` says.
  StatusOr<FoundGpu> Named(const DeviceConfig& device) {
    return Take(device, [&](const FoundGpu& gpu) { return gpu.uuid.starts_with(device.uuid); });
  }
  // The first that nobody has.
  StatusOr<FoundGpu> Next(const DeviceConfig& device) {
    return Take(device, [&](const FoundGpu& gpu) { return !taken_.contains(gpu.uuid); });
  }

 private:
  template <typename Fits>
  StatusOr<FoundGpu> Take(const DeviceConfig& device, const Fits& fits) {
    if (!gpus_.ok()) return WithAdvice(gpus_.status());
    const auto gpu = std::find_if(gpus_->begin(), gpus_->end(), fits);
    if (gpu == gpus_->end()) {
      std::string there;
      for (const FoundGpu& each : *gpus_) {
        absl::StrAppend(&there, there.empty() ? "" : ", ", each.uuid);
      }
      return WithAdvice(Refuse(
          device,
          absl::StrCat("there is no GPU ", device.uuid.empty() ? "left" : device.uuid, " for ",
                       device.name, "; the driver shows ", there.empty() ? "none" : there)));
    }
    if (!taken_.insert(gpu->uuid).second) {
      return Refuse(device, absl::StrCat("the GPU is taken twice: ", gpu->uuid));
    }
    return *gpu;
  }

  const StatusOr<std::vector<FoundGpu>>& gpus_;
  std::set<std::string> taken_;
};

// What is left to runtime unless it is told. Segments of its arena have one size.
constexpr Percent kRuntimeShare{20};

// `total` is what the Device has in all.
StatusOr<RuntimeStoreOptions> PlanRuntime(const Config& config, const DeviceConfig& device,
                                          Bytes total) {
  const Bytes left = SaturatingSub(total, Resolve(device.weights, total));
  const Bytes wanted = device.runtime.has_value() ? Resolve(*device.runtime, total)
                                                  : std::min(Resolve(kRuntimeShare, total), left);
  if (wanted > left) {
    return Refuse(device,
                  absl::StrCat("weights and runtime are more than the total of ", device.name, ": ",
                               FormatBytes(Resolve(device.weights, total)), " and ",
                               FormatBytes(wanted), " of ", FormatBytes(total)));
  }
  RuntimeStoreOptions runtime;
  static_cast<RuntimeStoreTimes&>(runtime) = RuntimeTimesOf(config);
  runtime.capacity = AlignDown(wanted, config.runtime.segment_size);
  runtime.segment_size = config.runtime.segment_size;
  return runtime;
}

// `total` is what the Device has in all.
StatusOr<DeviceStoreOptions> PlanStore(const Config& config, const DeviceConfig& device,
                                       Bytes total) {
  const Bytes weights = Resolve(device.weights, total);
  if (weights > total) {
    return Refuse(device, absl::StrCat("the weights are more than the total of ", device.name, ": ",
                                       FormatBytes(weights), " of ", FormatBytes(total)));
  }
  DeviceStoreOptions store;
  store.weights_capacity = AlignDown(weights, kGranule);
  if (store.weights_capacity.zero()) {
    return Refuse(device, absl::StrCat("the weights of ", device.name,
                                       " are less than 2 MiB: ", FormatBytes(weights)));
  }
  store.segment_size = config.segment_size;
  store.single_segment = config.single_segment;
  static_cast<DeviceStoreTimes&>(store) = WeightsTimesOf(config);
  store.concurrent_loads = config.concurrent_loads;
  return store;
}

StatusOr<DevicePlan> PlanHost(const Config& config, const DeviceConfig& device, Bytes available) {
  const Bytes total = Resolve(device.total.value_or(AllBut{}), available);
  // What is left to the daemon is less while survivors have theirs.
  const bool fixed = device.total.has_value() && std::holds_alternative<Bytes>(*device.total);
  TENURE_ASSIGN_OR_RETURN(DeviceStoreOptions store, PlanStore(config, device, total));
  TENURE_ASSIGN_OR_RETURN(RuntimeStoreOptions runtime, PlanRuntime(config, device, total));
  store.capacity_includes_survivors = fixed;
  runtime.capacity_includes_survivors = fixed;
  return DevicePlan{
      .device =
          HostDeviceOptions{.name = device.name, .total = total, .huge_pages = device.huge_pages},
      .store = store,
      .runtime = runtime};
}

StatusOr<DevicePlan> PlanGpu(const Config& config, const DeviceConfig& device,
                             const FoundGpu& gpu) {
  const Bytes total = Resolve(device.total.value_or(AllBut{}), gpu.total);
  if (total > gpu.total) {
    return Refuse(device,
                  absl::StrCat("the total of ", device.name, " is more than ", gpu.uuid,
                               " has: ", FormatBytes(total), " of ", FormatBytes(gpu.total)));
  }
  TENURE_ASSIGN_OR_RETURN(const DeviceStoreOptions store, PlanStore(config, device, total));
  TENURE_ASSIGN_OR_RETURN(const RuntimeStoreOptions runtime, PlanRuntime(config, device, total));
  const int writers = config.concurrent_loads * config.copy_threads;
  return DevicePlan{.device = CudaDeviceOptions{.name = device.name,
                                                .uuid = gpu.uuid,
                                                .driver_timeout = config.driver_timeout,
                                                .writers = static_cast<size_t>(writers),
                                                .gpudirect = config.single_segment},
                    .store = store,
                    .runtime = runtime};
}

struct Maker {
  const Clock& clock;

  StatusOr<std::unique_ptr<Device>> operator()(const HostDeviceOptions& options) const {
    return MakeHostDevice(options);
  }
  StatusOr<std::unique_ptr<Device>> operator()(const CudaDeviceOptions& options) const {
    return MakeCudaDevice(options, clock);
  }
};

}  // namespace

DeviceStoreTimes WeightsTimesOf(const Config& config) {
  return {.retain_ttl = config.retain_ttl,
          .cache_ttl = config.cache_ttl,
          .recall_wait = config.recall_wait,
          .idle_unload_after = config.idle_unload_after,
          .default_lease_ttl = config.lease_ttl};
}

RuntimeStoreTimes RuntimeTimesOf(const Config& config) {
  return {.pool_ttl = config.runtime.pool_ttl,
          .cache_ttl = config.runtime.cache_ttl,
          .recall_wait = config.runtime.recall_wait,
          .lease_ttl = config.lease_ttl};
}

StatusOr<Machine> LookAtMachine(const Config& config) {
  TENURE_ASSIGN_OR_RETURN(const Bytes available, AvailableHostMemory());
  const bool only_host =
      !config.devices.empty() &&
      std::all_of(config.devices.begin(), config.devices.end(),
                  [](const DeviceConfig& device) { return device.backend == Backend::kHost; });
  if (only_host) return Machine{.host_available = available, .gpus = std::vector<FoundGpu>()};
  return Machine{.host_available = available, .gpus = FindGpus()};
}

StatusOr<std::vector<DevicePlan>> PlanDevices(const Config& config, const Machine& machine) {
  const std::vector<DeviceConfig> devices =
      config.devices.empty() ? DefaultDevices(machine) : config.devices;
  const auto is_host = [](const DeviceConfig& device) { return device.backend == Backend::kHost; };
  const auto hosts = std::count_if(devices.begin(), devices.end(), is_host);

  // Those with a UUID choose first.
  GpuChoice choice(machine.gpus);
  std::map<std::string, FoundGpu> gpus;
  for (const bool named : {true, false}) {
    for (const DeviceConfig& device : devices) {
      if (is_host(device) || device.uuid.empty() == named) continue;
      TENURE_ASSIGN_OR_RETURN(gpus[device.name],
                              named ? choice.Named(device) : choice.Next(device));
    }
  }

  std::vector<DevicePlan> plans;
  for (const DeviceConfig& device : devices) {
    if (is_host(device) && hosts > 1 && !device.total.has_value()) {
      return Refuse(device,
                    "where there are several host devices, each needs a total: " + device.name);
    }
    TENURE_ASSIGN_OR_RETURN(DevicePlan plan, is_host(device)
                                                 ? PlanHost(config, device, machine.host_available)
                                                 : PlanGpu(config, device, gpus[device.name]));
    plans.push_back(std::move(plan));
  }
  return plans;
}

StatusOr<std::vector<DeviceOptions>> MakeDevices(const std::vector<DevicePlan>& plans,
                                                 const Clock& clock) {
  std::vector<DeviceOptions> devices;
  for (const DevicePlan& plan : plans) {
    TENURE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, std::visit(Maker{clock}, plan.device));
    devices.push_back({.device = std::move(device), .store = plan.store, .runtime = plan.runtime});
  }
  return devices;
}

}  // namespace tenure
