#include "client/cpp/cuda_devices.h"

#include "client/cpp/cuda_device.h"
#include "client/cpp/cuda_driver.h"
#include "client/cpp/cuda_mapping.h"
#include "client/cpp/error.h"

namespace tenure::client {

absl::StatusOr<std::shared_ptr<Mapping>> CudaDevices::Reserve(const std::string& uuid,
                                                              uint64_t size_bytes) {
  if (driver_ == nullptr) {
    TENURE_CLIENT_ASSIGN_OR_RETURN(driver_, CudaDriver::Open());
  }
  std::shared_ptr<CudaDevice>& device = devices_[uuid];
  if (device == nullptr) {
    TENURE_CLIENT_ASSIGN_OR_RETURN(device, CudaDevice::Open(driver_, uuid));
  }
  return CudaMapping::Reserve(device, size_bytes);
}

}  // namespace tenure::client
