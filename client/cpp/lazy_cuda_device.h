#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/cpp/mapping.h"
#include "client/cpp/pool_mapping.h"

namespace tenure::client {

class CudaDevice;

// The CUDA device with one UUID, which the first call opens, and NVIDIA's driver before it. Its
// primary context is held until this object is destroyed. Thread-compatible.
class LazyCudaDevice {
 public:
  explicit LazyCudaDevice(std::string uuid) : uuid_(std::move(uuid)) {}

  // Reserves addresses for a region on the device. FAILED_PRECONDITION, with reason
  // CUDA_UNAVAILABLE or CUDA_DEVICE_NOT_FOUND, if this process cannot map memory of it;
  // RESOURCE_EXHAUSTED if the device has no room for a context, or this process no addresses.
  absl::StatusOr<std::shared_ptr<Mapping>> Reserve(uint64_t size_bytes);
  // The same for a pool.
  absl::StatusOr<std::shared_ptr<PoolMapping>> ReservePool(uint64_t size_bytes);

 private:
  absl::Status Open();

  const std::string uuid_;
  std::shared_ptr<CudaDevice> device_;  // null until it could be opened
};

}  // namespace tenure::client
