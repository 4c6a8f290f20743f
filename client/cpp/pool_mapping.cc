#include "client/cpp/pool_mapping.h"

#include <string>

#include "client/cpp/error.h"

namespace tenure::client {

absl::Status PoolMapping::CheckPlace(uint64_t offset, uint64_t bytes, uint64_t page_bytes) const {
  if (bytes > 0 && bytes % page_bytes == 0 && offset % page_bytes == 0 && offset <= size_bytes_ &&
      bytes <= size_bytes_ - offset) {
    return absl::OkStatus();
  }
  return ProtocolError("a segment does not fit its pool, offset: " + std::to_string(offset));
}

}  // namespace tenure::client
