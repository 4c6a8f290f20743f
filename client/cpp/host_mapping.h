#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "client/cpp/mapping.h"
#include "client/cpp/unique_fd.h"

namespace tenure::client {

// Memory of the host: files, mapped.
class HostMapping final : public Mapping {
 public:
  // Reserves addresses only. RESOURCE_EXHAUSTED if there are none.
  static absl::StatusOr<std::shared_ptr<Mapping>> Reserve(uint64_t size_bytes);
  ~HostMapping() override;

  absl::Status Append(UniqueFd fd, uint64_t segment_bytes) override;
  absl::Status Unmap() override;
  absl::Status CopyToHost(uint64_t offset, std::span<std::byte> into) const override;
  bool waits() const override { return false; }
  std::optional<int> cuda_ordinal() const override { return std::nullopt; }

 private:
  HostMapping(std::byte* base, uint64_t size_bytes) : Mapping(base, size_bytes), start_(base) {}

  std::byte* const start_;
};

}  // namespace tenure::client
