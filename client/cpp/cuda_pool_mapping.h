#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cstdint>
#include <cuda.h>
#include <memory>
#include <optional>
#include <set>

#include "client/cpp/cuda_device.h"
#include "client/cpp/pool_mapping.h"
#include "client/cpp/unique_fd.h"

namespace tenure::client {

// A pool of a CUDA device's memory. Each segment is imported once, mapped whole, and released, so
// that the mapping alone keeps the memory.
class CudaPoolMapping final : public PoolMapping {
 public:
  // Reserves addresses only.
  static absl::StatusOr<std::shared_ptr<PoolMapping>> Reserve(std::shared_ptr<CudaDevice> device,
                                                              uint64_t size_bytes);
  // REQUIRES: nothing is mapped, or an Unmap has failed, or the driver is not to be trusted.
  ~CudaPoolMapping() override;

  absl::Status Map(UniqueFd fd, uint64_t offset, uint64_t bytes) override;
  // Waits for all work in the context first, as some of it may touch what it should not any more.
  // UNAVAILABLE while a stream capture forbids that.
  absl::Status Unmap(uint64_t offset, uint64_t bytes) override;
  bool waits() const override { return true; }
  std::optional<int> cuda_ordinal() const override { return device_->ordinal(); }
  std::shared_ptr<CudaEvents> cuda_events() const override { return DriverCudaEvents(device_); }

 private:
  CudaPoolMapping(std::shared_ptr<CudaDevice> device, CUdeviceptr at, uint64_t size_bytes);

  const std::shared_ptr<CudaDevice> device_;
  const CUdeviceptr at_;
  std::set<uint64_t> mapped_;  // offsets of segments
};

}  // namespace tenure::client
