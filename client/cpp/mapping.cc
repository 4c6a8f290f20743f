#include "client/cpp/mapping.h"

#include <errno.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "client/cpp/error.h"

namespace tenure::client {
namespace {

// So that huge pages of a segment can be mapped as such.
constexpr uint64_t kAlignment = uint64_t{2} << 20;

// Far above any region, far below an overflow.
constexpr uint64_t kLargest = uint64_t{1} << 46;

}  // namespace

absl::StatusOr<Mapping> Mapping::Reserve(uint64_t size_bytes) {
  if (size_bytes == 0 || size_bytes > kLargest) {
    return ProtocolError("a region cannot have this many bytes: " + std::to_string(size_bytes));
  }
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
  Mapping mapping;
  mapping.base_ = first + head;
  mapping.size_bytes_ = size_bytes;
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    Unmap();
    base_ = std::exchange(other.base_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
  }
  return *this;
}

absl::Status Mapping::Append(UniqueFd fd, uint64_t segment_bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (segment_bytes == 0 || segment_bytes % page != 0 ||
      segment_bytes > size_bytes_ - mapped_bytes_) {
    return ProtocolError("a segment does not fit its region, bytes: " +
                         std::to_string(segment_bytes));
  }
  // Reading past the end of a shorter file would be SIGBUS.
  struct stat file {};
  if (fstat(fd.get(), &file) != 0 || static_cast<uint64_t>(file.st_size) < segment_bytes) {
    return ProtocolError("a segment's file is shorter than said, bytes: " +
                         std::to_string(segment_bytes));
  }
  std::byte* const place = base_ + mapped_bytes_;
  if (mmap(place, segment_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd.get(), 0) == MAP_FAILED) {
    return SystemError("mapping a segment", errno);
  }
  // A child that kept a copy would hold the memory without a session that answers for it.
  if (madvise(place, segment_bytes, MADV_DONTFORK) != 0) {
    return SystemError("MADV_DONTFORK on a segment", errno);
  }
  mapped_bytes_ += segment_bytes;
  return absl::OkStatus();
}

void Mapping::Unmap() {
  if (base_ == nullptr) return;
  munmap(base_, size_bytes_);
  base_ = nullptr;
  size_bytes_ = 0;
  mapped_bytes_ = 0;
}

}  // namespace tenure::client
