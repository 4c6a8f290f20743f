#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cstddef>
#include <cstdint>
#include <cuda.h>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/cpp/cuda_device.h"
#include "client/cpp/mapping.h"
#include "client/cpp/unique_fd.h"

namespace tenure::client {

// Memory of a CUDA device: handles of the driver's virtual memory, which come as fds. Each is
// imported once, mapped whole, and released, so that the mapping alone keeps the memory. Access is
// given for the whole range at once, when it is complete.
class CudaMapping final : public Mapping {
 public:
  // Reserves addresses only.
  static absl::StatusOr<std::shared_ptr<Mapping>> Reserve(std::shared_ptr<CudaDevice> device,
                                                          uint64_t size_bytes);
  ~CudaMapping() override;

  absl::Status Append(UniqueFd fd, uint64_t segment_bytes) override;
  // Waits for all work in the context first, as some of it may read what it should not any more.
  // UNAVAILABLE while a stream capture forbids that.
  absl::Status Unmap() override;
  // May be called in several threads at once.
  absl::Status CopyToHost(uint64_t offset, std::span<std::byte> into) const override;
  bool waits() const override { return true; }
  std::optional<int> cuda_ordinal() const override { return ordinal_; }

 private:
  CudaMapping(std::shared_ptr<CudaDevice> device, CUdeviceptr at, uint64_t size_bytes);

  absl::Status MapWhole(CUmemGenericAllocationHandle handle, uint64_t segment_bytes);
  absl::Status UnmapAll();

  std::shared_ptr<CudaDevice> device_;  // null once unmapped
  const int ordinal_;
  const CUdeviceptr at_;
  std::vector<uint64_t> segments_;  // sizes of what is mapped, in order
  bool stuck_ = false;              // an Unmap failed
};

}  // namespace tenure::client
