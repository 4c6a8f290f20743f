#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/deadline.h"
#include "client/cpp/unique_fd.h"

namespace tenure::client {

// What came in one packet.
struct ReceivedPacket {
  std::string bytes;
  std::vector<UniqueFd> fds;
  // Some fds were dropped by the kernel because this process has too many open.
  bool fds_lost = false;
};

// One end of the handle socket: packets in order, fds beside them. Nothing here waits but Connect.
// Thread-compatible.
class HandleSocket {
 public:
  static constexpr size_t kMaxPacket = size_t{64} << 10;

  // UNAVAILABLE if nothing listens at `path` or takes the connection in time.
  static absl::StatusOr<HandleSocket> Connect(const std::string& path, Deadline deadline);

  explicit HandleSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }

  // False if the packet has to wait until the socket is writable. UNAVAILABLE if the other end is
  // gone.
  absl::StatusOr<bool> Send(const std::string& packet);

  // nullopt if nothing is there now. UNAVAILABLE at the end of the connection.
  absl::StatusOr<std::optional<ReceivedPacket>> Receive();

  // Lets go of the fd at once; for a forked child, which must not keep the connection open.
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
};

}  // namespace tenure::client
