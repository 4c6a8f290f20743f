#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "server/handle_packet.h"

namespace tenure {

// Packets on their way to a client that may not read: in order, at most kMaxPackets and kMaxBytes
// of them, sent as the client reads. Thread-compatible; nothing here waits.
class HandleOutbound {
 public:
  static constexpr size_t kMaxPackets = 256;
  static constexpr size_t kMaxBytes = 1 << 20;

  // False if there is no room, or nobody reads any more: the packet is dropped.
  bool Add(std::string packet);
  // Sends what it can. True if nothing is left and more could be sent now.
  bool Flush(int socket, Instant now);
  // Sends a packet with fds that is not queued. False if it cannot go now; try again after a Flush.
  // REQUIRES: Flush has just returned true.
  bool SendNow(int socket, std::string_view packet, std::span<const UniqueFd> fds, Instant now);
  void Clear();

  // The socket can be written to again.
  void OnWritable() { full_ = false; }
  bool wants_to_write() const { return full_; }
  // When to Flush though nothing else happened; kNever if there is no need.
  Instant retry_at() const { return retry_at_; }

 private:
  // True if the packet is gone.
  bool Note(SendResult result, Instant now);

  std::deque<std::string> packets_;
  size_t bytes_ = 0;
  bool full_ = false;          // wait for the client to read
  Instant retry_at_ = kNever;  // the kernel refused, and nothing tells when it would not
  bool nobody_reads_ = false;
};

}  // namespace tenure
