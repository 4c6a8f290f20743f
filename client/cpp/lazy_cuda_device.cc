#include "client/cpp/lazy_cuda_device.h"

#include "client/cpp/cuda_device.h"
#include "client/cpp/cuda_driver.h"
#include "client/cpp/cuda_mapping.h"
#include "client/cpp/cuda_pool_mapping.h"
#include "client/cpp/error.h"

namespace tenure::client {

absl::Status LazyCudaDevice::Open() {
  if (device_ != nullptr) return absl::OkStatus();
  TENURE_CLIENT_ASSIGN_OR_RETURN(auto driver, CudaDriver::Open());
  TENURE_CLIENT_ASSIGN_OR_RETURN(device_, CudaDevice::Open(std::move(driver), uuid_));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Mapping>> LazyCudaDevice::Reserve(uint64_t size_bytes) {
  TENURE_CLIENT_RETURN_IF_ERROR(Open());
  return CudaMapping::Reserve(device_, size_bytes);
}

absl::StatusOr<std::shared_ptr<PoolMapping>> LazyCudaDevice::ReservePool(uint64_t size_bytes) {
  TENURE_CLIENT_RETURN_IF_ERROR(Open());
  return CudaPoolMapping::Reserve(device_, size_bytes);
}

}  // namespace tenure::client
