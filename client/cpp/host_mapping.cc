#include "client/cpp/host_mapping.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/host_reservation.h"

namespace tenure::client {
absl::StatusOr<std::shared_ptr<Mapping>> HostMapping::Reserve(uint64_t size_bytes) {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckRegionSize(size_bytes));
  TENURE_CLIENT_ASSIGN_OR_RETURN(std::byte* const base, ReserveHostAddresses(size_bytes));
  return std::shared_ptr<Mapping>(new HostMapping(base, size_bytes));
}

HostMapping::~HostMapping() {
  if (base() != nullptr) munmap(start_, size_bytes());
}

absl::Status HostMapping::Append(UniqueFd fd, uint64_t segment_bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  TENURE_CLIENT_RETURN_IF_ERROR(CheckSegmentSize(segment_bytes, page));
  TENURE_CLIENT_RETURN_IF_ERROR(
      MapHostSegment(start_ + mapped_bytes(), std::move(fd), segment_bytes, /*writable=*/false));
  SetMappedBytes(mapped_bytes() + segment_bytes);
  return absl::OkStatus();
}

absl::Status HostMapping::Unmap() {
  if (base() == nullptr) return absl::OkStatus();
  if (munmap(start_, size_bytes()) != 0) return SystemError("unmapping a region", errno);
  Clear();
  return absl::OkStatus();
}

absl::Status HostMapping::CopyToHost(uint64_t offset, std::span<std::byte> into) const {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckRange(offset, into.size()));
  if (!into.empty()) memcpy(into.data(), base() + offset, into.size());
  return absl::OkStatus();
}

}  // namespace tenure::client
