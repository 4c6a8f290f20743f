#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"

namespace tenure {

// Tells systemd how the service is, as sd_notify(3) describes it: a datagram to the socket that
// NOTIFY_SOCKET names. Without one it says nothing. Nothing here waits, and what cannot be sent is
// lost. Thread-safe.
class ServiceNotify {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and takes them out of the environment, so
  // that no child talks in our name. To be called before there are other threads.
  static ServiceNotify FromEnvironment();

  // `socket` is a path, or a name that begins with '@'; empty: nobody listens. `watchdog`: how
  // often a sign of life is expected; kForever: never.
  ServiceNotify(const std::string& socket, Duration watchdog);
  ServiceNotify(ServiceNotify&& other) noexcept;

  void Ready(const std::string& status) const;
  // A reload begins at `now`; Ready ends it.
  void Reloading(Instant now) const;
  void Stopping(const std::string& status) const;
  void Status(const std::string& status) const;
  // To be called again and again by the thread whose hanging would be the service's: sends a sign
  // of life whenever half of the time for it has passed.
  void Alive(Instant now);

 private:
  void Send(const std::string& message) const;

  std::string address_;  // as bind wants it; empty: none
  UniqueFd socket_;
  Duration watchdog_;
  std::atomic<Instant> next_sign_ = Instant();
};

}  // namespace tenure
