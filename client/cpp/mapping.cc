#include "client/cpp/mapping.h"

#include <string>

#include "client/cpp/error.h"

namespace tenure::client {
namespace {

// Far above any region, far below an overflow.
constexpr uint64_t kLargest = uint64_t{1} << 46;

}  // namespace

absl::Status Mapping::CheckRegionSize(uint64_t bytes) {
  if (bytes > 0 && bytes <= kLargest) return absl::OkStatus();
  return ProtocolError("a region cannot have this many bytes: " + std::to_string(bytes));
}

absl::Status Mapping::CheckSegmentSize(uint64_t bytes, uint64_t page_bytes) const {
  if (bytes > 0 && bytes % page_bytes == 0 && bytes <= size_bytes_ - mapped_bytes_) {
    return absl::OkStatus();
  }
  return ProtocolError("a segment does not fit its region, bytes: " + std::to_string(bytes));
}

absl::Status Mapping::CheckRange(uint64_t offset, uint64_t bytes) const {
  if (offset <= size_bytes_ && bytes <= size_bytes_ - offset) return absl::OkStatus();
  return absl::OutOfRangeError(
      "the region has fewer bytes than asked for: " + std::to_string(size_bytes_) + ", from " +
      std::to_string(offset) + " on " + std::to_string(bytes));
}

}  // namespace tenure::client
