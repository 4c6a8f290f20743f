#pragma once

#include <optional>
#include <sys/types.h>
#include <vector>

#include "core/base/unique_fd.h"

namespace tenure {

// The process at the other end of a connection, as the kernel knows it.
struct HandlePeer {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary ones; empty if the kernel does not tell
  pid_t pid = 0;              // in our pid namespace; 0 if it cannot be seen from there
  UniqueFd pidfd;             // readable once the process has ended; not valid if none can be had
};

// Tells who connected `socket`. nullopt if that cannot be told now, because the process has ended
// already or we are out of fds: the connection is then worth nothing.
//
// The pidfd is that of the connection itself where the kernel gives one (SO_PEERPIDFD, Linux 6.5),
// also over pid namespaces; else that of the pid. A pid can come to name another process only after
// the one that connected has ended, so at worst memory is kept until that other process ends, too:
// it is never given away early.
std::optional<HandlePeer> IdentifyPeer(int socket);

}  // namespace tenure
