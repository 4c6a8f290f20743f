#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/device/device.h"

namespace tenure {

// Whether host Segments use huge pages: never, as long as the pool has some (if it had one at the
// start), or only.
enum class HugePages { kOff, kTry, kRequire };

struct HostDeviceOptions {
  std::string name = "host:0";
  Bytes total;  // what may be taken; see AvailableHostMemory
  HugePages huge_pages = HugePages::kOff;
};

// The machine's own memory as a Device. A Segment is one memfd, allocated with fallocate, mapped by
// the daemon and then sealed in one call against shrinking, growing, new writable maps, and further
// seals: whoever gets the fd can read and nothing else. No Segment is created beyond what
// AvailableHostMemory says, less a little that the process itself may come to need, since the
// kernel would kill somebody before it refused.
//
// BACKEND, naming the pool, if huge pages are required and none can be used: the probe runs in a
// child process, because under a memory limit the first touch is a SIGBUS and not an error.
StatusOr<std::unique_ptr<Device>> MakeHostDevice(const HostDeviceOptions& options);

// The lesser of the memory that the machine has available now and what the limits of the process's
// cgroups leave.
// BACKEND if neither can be read.
StatusOr<Bytes> AvailableHostMemory();

}  // namespace tenure
