#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cstdint>
#include <memory>
#include <optional>

#include "client/cpp/pool_mapping.h"
#include "client/cpp/unique_fd.h"

namespace tenure::client {

// A pool of the host's memory: files, mapped.
class HostPoolMapping final : public PoolMapping {
 public:
  // Reserves addresses only. RESOURCE_EXHAUSTED if there are none.
  static absl::StatusOr<std::shared_ptr<PoolMapping>> Reserve(uint64_t size_bytes);
  ~HostPoolMapping() override;

  absl::Status Map(UniqueFd fd, uint64_t offset, uint64_t bytes) override;
  absl::Status Unmap(uint64_t offset, uint64_t bytes) override;
  bool waits() const override { return false; }
  std::optional<int> cuda_ordinal() const override { return std::nullopt; }
  std::shared_ptr<CudaEvents> cuda_events() const override { return DriverCudaEvents(nullptr); }

 private:
  using PoolMapping::PoolMapping;
};

}  // namespace tenure::client
