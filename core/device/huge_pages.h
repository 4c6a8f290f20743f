#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/base/units.h"

namespace tenure {

// The huge pages that host Segments are made of, whatever the machine's default size is.
inline constexpr Bytes kHugePage = MiB(2);

// Takes one huge page from the machine's pool, touches it, and gives it back. BACKEND, naming the
// pool's size, if that fails. The page is touched in a child process, because under a memory limit
// the first touch is a SIGBUS and not an error.
Status ProbeHugePages();

}  // namespace tenure
