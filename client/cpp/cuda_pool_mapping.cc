#include "client/cpp/cuda_pool_mapping.h"

#include <bit>
#include <string>
#include <utility>

#include "client/cpp/error.h"

namespace tenure::client {

absl::StatusOr<std::shared_ptr<PoolMapping>> CudaPoolMapping::Reserve(
    std::shared_ptr<CudaDevice> device, uint64_t size_bytes) {
  const CudaScope scope(*device);
  TENURE_CLIENT_RETURN_IF_ERROR(scope.status());
  const CudaDriver& driver = device->driver();
  CUdeviceptr at = 0;
  TENURE_CLIENT_RETURN_IF_ERROR(
      driver.Check(driver.cuMemAddressReserve(&at, size_bytes, device->granule_bytes(), 0, 0),
                   "reserving addresses of a CUDA device"));
  return std::shared_ptr<PoolMapping>(new CudaPoolMapping(std::move(device), at, size_bytes));
}

CudaPoolMapping::CudaPoolMapping(std::shared_ptr<CudaDevice> device, CUdeviceptr at,
                                 uint64_t size_bytes)
    : PoolMapping(std::bit_cast<std::byte*>(at), size_bytes), device_(std::move(device)), at_(at) {}

// Addresses under which something is still mapped stay taken.
CudaPoolMapping::~CudaPoolMapping() {
  if (!mapped_.empty()) return;
  const CudaScope scope(*device_);
  if (scope.status().ok()) (void)device_->driver().cuMemAddressFree(at_, size_bytes());
}

absl::Status CudaPoolMapping::Map(UniqueFd fd, uint64_t offset, uint64_t bytes) {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckPlace(offset, bytes, device_->granule_bytes()));
  const CudaScope scope(*device_);
  TENURE_CLIENT_RETURN_IF_ERROR(scope.status());
  const CudaDriver& driver = device_->driver();
  TENURE_CLIENT_ASSIGN_OR_RETURN(const CUmemGenericAllocationHandle handle,
                                 device_->Import(std::move(fd)));
  const absl::Status mapped = driver.Check(driver.cuMemMap(at_ + offset, bytes, 0, handle, 0),
                                           "mapping a segment of a CUDA device");
  if (mapped.ok()) mapped_.insert(offset);
  const absl::Status released =
      driver.Check(driver.cuMemRelease(handle), "releasing a segment of a CUDA device");
  TENURE_CLIENT_RETURN_IF_ERROR(mapped);
  TENURE_CLIENT_RETURN_IF_ERROR(released);
  return device_->Allow(at_ + offset, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

absl::Status CudaPoolMapping::Unmap(uint64_t offset, uint64_t bytes) {
  if (!mapped_.contains(offset)) return absl::OkStatus();
  const CudaScope scope(*device_);
  TENURE_CLIENT_RETURN_IF_ERROR(scope.status());
  TENURE_CLIENT_RETURN_IF_ERROR(device_->Synchronize());
  const CudaDriver& driver = device_->driver();
  TENURE_CLIENT_RETURN_IF_ERROR(
      driver.Check(driver.cuMemUnmap(at_ + offset, bytes), "unmapping a segment of a CUDA device"));
  mapped_.erase(offset);
  return absl::OkStatus();
}

}  // namespace tenure::client
