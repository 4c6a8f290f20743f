#pragma once

#include <absl/status/statusor.h>
#include <cstddef>
#include <cstdint>

#include "client/cpp/unique_fd.h"

namespace tenure::client {

// Addresses of this process, aligned at 2 MiB so that huge pages of a segment can be mapped as
// such; nothing can be read there yet. RESOURCE_EXHAUSTED if there are none.
absl::StatusOr<std::byte*> ReserveHostAddresses(uint64_t bytes);

// Maps the first `bytes` of `fd` at `place`, which is reserved. A forked child does not get it.
// INTERNAL if the file is shorter: reading past its end would be SIGBUS.
absl::Status MapHostSegment(std::byte* place, UniqueFd fd, uint64_t bytes, bool writable);

}  // namespace tenure::client
