#pragma once

#include <string>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/cuda_device.h"
#include "core/device/host_device.h"
#include "core/store/device_store.h"
#include "core/store/runtime_store.h"
#include "core/store/store.h"
#include "server/config.h"

namespace tenure {

// What there is to make Devices of.
struct Machine {
  Bytes host_available;
  StatusOr<std::vector<FoundGpu>> gpus;  // or why there are none
};

// Asks the driver only if the configuration leaves room for a GPU. BACKEND if nobody tells how much
// memory there is.
StatusOr<Machine> LookAtMachine(const Config& config);

// What each store is told of times.
DeviceStoreTimes WeightsTimesOf(const Config& config);
RuntimeStoreTimes RuntimeTimesOf(const Config& config);

// A Device as it will be made.
struct DevicePlan {
  std::variant<HostDeviceOptions, CudaDeviceOptions> device;
  DeviceStoreOptions store;
  RuntimeStoreOptions runtime;
};

// Turns the configuration's shares into bytes and its GPUs into UUIDs; without any Device in it,
// plans one for each GPU, or one of the machine's own memory if there is none. INVALID_REQUEST if
// a Device is to hold more than it has, several host Devices leave their total open, or a
// GPU is not there or named twice; BACKEND if a GPU is wanted and there is no driver.
StatusOr<std::vector<DevicePlan>> PlanDevices(const Config& config, const Machine& machine);

// Makes them. `clock` outlives them.
StatusOr<std::vector<DeviceOptions>> MakeDevices(const std::vector<DevicePlan>& plans,
                                                 const Clock& clock);

}  // namespace tenure
