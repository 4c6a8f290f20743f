#include "client/cpp/host_mapping.h"

#include <errno.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cpp/error.h"

namespace tenure::client {
namespace {

// So that huge pages of a segment can be mapped as such.
constexpr uint64_t kAlignment = uint64_t{2} << 20;

}  // namespace

absl::StatusOr<std::shared_ptr<Mapping>> HostMapping::Reserve(uint64_t size_bytes) {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckRegionSize(size_bytes));
  const uint64_t reserved = size_bytes + kAlignment;
  void* start =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    return absl::ResourceExhaustedError("no address space for " + std::to_string(size_bytes) +
                                        " bytes");
  }
  const uint64_t address = reinterpret_cast<uint64_t>(start);
  const uint64_t head = (kAlignment - address % kAlignment) % kAlignment;
  auto* const first = static_cast<std::byte*>(start);
  if (head > 0) munmap(first, head);
  if (const uint64_t tail = reserved - head - size_bytes; tail > 0) {
    munmap(first + head + size_bytes, tail);
  }
  return std::shared_ptr<Mapping>(new HostMapping(first + head, size_bytes));
}

HostMapping::~HostMapping() {
  if (base() != nullptr) munmap(start_, size_bytes());
}

absl::Status HostMapping::Append(UniqueFd fd, uint64_t segment_bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  TENURE_CLIENT_RETURN_IF_ERROR(CheckSegmentSize(segment_bytes, page));
  // Reading past the end of a shorter file would be SIGBUS.
  struct stat file {};
  if (fstat(fd.get(), &file) != 0 || static_cast<uint64_t>(file.st_size) < segment_bytes) {
    return ProtocolError("a segment's file is shorter than said, bytes: " +
                         std::to_string(segment_bytes));
  }
  std::byte* const place = start_ + mapped_bytes();
  if (mmap(place, segment_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd.get(), 0) == MAP_FAILED) {
    return SystemError("mapping a segment", errno);
  }
  // A child that kept a copy would hold the memory without a session that answers for it.
  if (madvise(place, segment_bytes, MADV_DONTFORK) != 0) {
    return SystemError("MADV_DONTFORK on a segment", errno);
  }
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
