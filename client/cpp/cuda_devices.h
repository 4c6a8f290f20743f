#pragma once

#include <absl/status/statusor.h>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "client/cpp/mapping.h"

namespace tenure::client {

struct CudaDriver;
class CudaDevice;

// The CUDA devices that the leases of one session are on. The first call opens the driver; a device
// is opened by the first call that names it, and its primary context is held until this object is
// destroyed. Thread-compatible.
class CudaDevices {
 public:
  // Reserves addresses for a region on the device with this UUID. FAILED_PRECONDITION, with reason
  // CUDA_UNAVAILABLE or CUDA_DEVICE_NOT_FOUND, if this process cannot map memory of it;
  // RESOURCE_EXHAUSTED if the device has no room for a context, or this process no addresses.
  absl::StatusOr<std::shared_ptr<Mapping>> Reserve(const std::string& uuid, uint64_t size_bytes);

 private:
  std::shared_ptr<const CudaDriver> driver_;                    // null until it could be opened
  std::map<std::string, std::shared_ptr<CudaDevice>> devices_;  // by UUID
};

}  // namespace tenure::client
