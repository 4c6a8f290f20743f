#include "client/cpp/host_pool_mapping.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/host_reservation.h"

namespace tenure::client {

absl::StatusOr<std::shared_ptr<PoolMapping>> HostPoolMapping::Reserve(uint64_t size_bytes) {
  TENURE_CLIENT_ASSIGN_OR_RETURN(std::byte* const base, ReserveHostAddresses(size_bytes));
  return std::shared_ptr<PoolMapping>(new HostPoolMapping(base, size_bytes));
}

HostPoolMapping::~HostPoolMapping() { munmap(base(), size_bytes()); }

absl::Status HostPoolMapping::Map(UniqueFd fd, uint64_t offset, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  TENURE_CLIENT_RETURN_IF_ERROR(CheckPlace(offset, bytes, page));
  return MapHostSegment(base() + offset, std::move(fd), bytes, /*writable=*/true);
}

// The addresses stay reserved.
absl::Status HostPoolMapping::Unmap(uint64_t offset, uint64_t bytes) {
  if (mmap(base() + offset, bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return SystemError("unmapping a segment", errno);
  }
  return absl::OkStatus();
}

}  // namespace tenure::client
