#include "client/cpp/host_reservation.h"

#include <errno.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>

#include "client/cpp/error.h"

namespace tenure::client {
namespace {

constexpr uint64_t kAlignment = uint64_t{2} << 20;

}  // namespace

absl::StatusOr<std::byte*> ReserveHostAddresses(uint64_t bytes) {
  const uint64_t reserved = bytes + kAlignment;
  void* start =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    return absl::ResourceExhaustedError("no address space for " + std::to_string(bytes) + " bytes");
  }
  const uint64_t address = reinterpret_cast<uint64_t>(start);
  const uint64_t head = (kAlignment - address % kAlignment) % kAlignment;
  auto* const first = static_cast<std::byte*>(start);
  if (head > 0) munmap(first, head);
  if (const uint64_t tail = reserved - head - bytes; tail > 0) munmap(first + head + bytes, tail);
  return first + head;
}

absl::Status MapHostSegment(std::byte* place, UniqueFd fd, uint64_t bytes, bool writable) {
  struct stat file {};
  if (fstat(fd.get(), &file) != 0 || static_cast<uint64_t>(file.st_size) < bytes) {
    return ProtocolError("a segment's file is shorter than said, bytes: " + std::to_string(bytes));
  }
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  if (mmap(place, bytes, protection, MAP_SHARED | MAP_FIXED, fd.get(), 0) == MAP_FAILED) {
    return SystemError("mapping a segment", errno);
  }
  // A child that kept a copy would hold the memory without a session that answers for it.
  if (madvise(place, bytes, MADV_DONTFORK) != 0) {
    return SystemError("MADV_DONTFORK on a segment", errno);
  }
  return absl::OkStatus();
}

}  // namespace tenure::client
