#include "core/store/pool_grant.h"

namespace tenure {

Bytes RequestedBytes(const PoolRequest& request) {
  if (const auto* whole = std::get_if<SegmentsSpec>(&request.wanted)) return whole->bytes;
  Bytes sum;
  for (const BufferSpec& spec : std::get<std::vector<BufferSpec>>(request.wanted)) {
    sum += spec.size;
  }
  return sum;
}

}  // namespace tenure
