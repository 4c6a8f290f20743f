#include "client/cpp/cuda_mapping.h"

#include <bit>
#include <string>
#include <utility>

#include "client/cpp/error.h"

namespace tenure::client {

absl::StatusOr<std::shared_ptr<Mapping>> CudaMapping::Reserve(std::shared_ptr<CudaDevice> device,
                                                              uint64_t size_bytes) {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckRegionSize(size_bytes));
  const uint64_t granule = device->granule_bytes();
  if (size_bytes % granule != 0) {
    return ProtocolError("a region on a CUDA device is not of whole granules, bytes: " +
                         std::to_string(size_bytes));
  }
  const CudaScope scope(*device);
  TENURE_CLIENT_RETURN_IF_ERROR(scope.status());
  const CudaDriver& driver = device->driver();
  CUdeviceptr at = 0;
  TENURE_CLIENT_RETURN_IF_ERROR(
      driver.Check(driver.cuMemAddressReserve(&at, size_bytes, granule, 0, 0),
                   "reserving addresses of a CUDA device"));
  return std::shared_ptr<Mapping>(new CudaMapping(std::move(device), at, size_bytes));
}

CudaMapping::CudaMapping(std::shared_ptr<CudaDevice> device, CUdeviceptr at, uint64_t size_bytes)
    : Mapping(std::bit_cast<const std::byte*>(at), size_bytes),
      device_(std::move(device)),
      ordinal_(device_->ordinal()),
      at_(at) {}

CudaMapping::~CudaMapping() {
  if (!stuck_) Unmap().IgnoreError();
}

absl::Status CudaMapping::Append(UniqueFd fd, uint64_t segment_bytes) {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckSegmentSize(segment_bytes, device_->granule_bytes()));
  const CudaScope scope(*device_);
  TENURE_CLIENT_RETURN_IF_ERROR(scope.status());
  const CudaDriver& driver = device_->driver();
  TENURE_CLIENT_ASSIGN_OR_RETURN(const CUmemGenericAllocationHandle handle,
                                 device_->Import(std::move(fd)));
  absl::Status mapped = MapWhole(handle, segment_bytes);
  // The mapping keeps the memory; a handle would keep it beyond that.
  const absl::Status released =
      driver.Check(driver.cuMemRelease(handle), "releasing a segment of a CUDA device");
  TENURE_CLIENT_RETURN_IF_ERROR(mapped);
  TENURE_CLIENT_RETURN_IF_ERROR(released);
  if (!complete()) return absl::OkStatus();
  return device_->Allow(at_, size_bytes(), CU_MEM_ACCESS_FLAGS_PROT_READ);
}

absl::Status CudaMapping::MapWhole(CUmemGenericAllocationHandle handle, uint64_t segment_bytes) {
  const CudaDriver& driver = device_->driver();
  TENURE_CLIENT_RETURN_IF_ERROR(
      driver.Check(driver.cuMemMap(at_ + mapped_bytes(), segment_bytes, 0, handle, 0),
                   "mapping a segment of a CUDA device"));
  segments_.push_back(segment_bytes);
  SetMappedBytes(mapped_bytes() + segment_bytes);
  return absl::OkStatus();
}

absl::Status CudaMapping::Unmap() {
  if (base() == nullptr) return absl::OkStatus();
  absl::Status status = UnmapAll();
  if (status.ok()) {
    Clear();
    device_.reset();
  } else if (!absl::IsUnavailable(status)) {
    stuck_ = true;
    device_->Abandon();
  }
  return status;
}

absl::Status CudaMapping::UnmapAll() {
  const CudaScope scope(*device_);
  TENURE_CLIENT_RETURN_IF_ERROR(scope.status());
  // Nobody knows the addresses before it is complete.
  TENURE_CLIENT_RETURN_IF_ERROR(complete() ? device_->Synchronize() : absl::OkStatus());
  const CudaDriver& driver = device_->driver();
  while (!segments_.empty()) {
    const uint64_t bytes = segments_.back();
    TENURE_CLIENT_RETURN_IF_ERROR(
        driver.Check(driver.cuMemUnmap(at_ + mapped_bytes() - bytes, bytes),
                     "unmapping a segment of a CUDA device"));
    segments_.pop_back();
    SetMappedBytes(mapped_bytes() - bytes);
  }
  return driver.Check(driver.cuMemAddressFree(at_, size_bytes()),
                      "giving addresses of a CUDA device back");
}

absl::Status CudaMapping::CopyToHost(uint64_t offset, std::span<std::byte> into) const {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckRange(offset, into.size()));
  if (into.empty()) return absl::OkStatus();
  const CudaScope scope(*device_);
  TENURE_CLIENT_RETURN_IF_ERROR(scope.status());
  const CudaDriver& driver = device_->driver();
  TENURE_CLIENT_RETURN_IF_ERROR(driver.Check(
      driver.cuMemcpyDtoHAsync(into.data(), at_ + offset, into.size(), device_->stream()),
      "copying from a CUDA device"));
  return driver.Check(driver.cuStreamSynchronize(device_->stream()), "copying from a CUDA device");
}

}  // namespace tenure::client
