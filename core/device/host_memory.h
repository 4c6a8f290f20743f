#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/units.h"

namespace tenure {

// Tells how much memory this process could still take without anybody being killed for it: the
// lesser of what the machine has available and, for each cgroup from the process's own up to the
// root of the mounted hierarchy, v2 or v1, what its limit leaves. Pages that only cache files count
// as left, since the kernel drops them first. A cgroup without a limit, or that cannot be seen from
// here, leaves everything. Thread-safe.
class HostMemory {
 public:
  // Reads ROOT/proc and the cgroup mounts that it names, below ROOT; "" is the machine itself.
  // Which cgroups there are is looked up once, now.
  explicit HostMemory(std::string root = "");

  // BACKEND if neither can be read.
  StatusOr<Bytes> Available() const;

 private:
  struct Cgroup {
    std::string directory;
    bool v1 = false;
  };

  const std::string root_;
  const std::vector<Cgroup> cgroups_;

  static std::vector<Cgroup> FindCgroups(const std::string& root);
};

}  // namespace tenure
