#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

#include "core/base/clock.h"

namespace tenure {

// How the handle socket is served.
struct HandleServerOptions {
  std::string path;            // at most 107 bytes
  mode_t mode = 0660;          // of the socket
  std::optional<gid_t> group;  // of the socket; nullopt: the process's
  std::string boot_id;         // 32 hexadecimal digits; see RandomHex
  Duration heartbeat_interval = std::chrono::seconds(5);
  // A connection that has not said hello by then is closed.
  Duration hello_timeout = std::chrono::seconds(5);
  // Where no pidfd can be had, a process counts as dead this long after it hung up. Where one can
  // be had, a Session that hung up and has nothing mapped is remembered this long.
  Duration death_grace = std::chrono::seconds(2);
  // Connections that have not said hello: one more, and the oldest of them is closed.
  size_t max_greeting = 64;
};

// Since start. All are monotonic.
struct HandleCounters {
  std::atomic<uint64_t> connections_refused = 0;  // closed before they had a Session
  std::atomic<uint64_t> protocol_breaks = 0;      // Sessions that became deaf
  std::atomic<uint64_t> packets_dropped = 0;      // not queued: the client does not read
  std::atomic<uint64_t> unknown_shares = 0;       // serials in Unmapped that name nothing
};

}  // namespace tenure
