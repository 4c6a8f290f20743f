#include "server/handle_outbound.h"

#include <utility>

namespace tenure {
namespace {

constexpr Duration kRetryAfter = std::chrono::milliseconds(20);

}  // namespace

bool HandleOutbound::Add(std::string packet) {
  if (nobody_reads_ || packets_.size() >= kMaxPackets || bytes_ + packet.size() > kMaxBytes) {
    return false;
  }
  bytes_ += packet.size();
  packets_.push_back(std::move(packet));
  return true;
}

bool HandleOutbound::Flush(int socket, Instant now) {
  if (now >= retry_at_) retry_at_ = kNever;
  if (full_ || nobody_reads_ || retry_at_ != kNever) return false;
  while (!packets_.empty()) {
    if (!Note(SendPacket(socket, packets_.front(), {}), now)) return false;
    bytes_ -= packets_.front().size();
    packets_.pop_front();
  }
  return true;
}

bool HandleOutbound::SendNow(int socket, std::string_view packet, std::span<const UniqueFd> fds,
                             Instant now) {
  return Note(SendPacket(socket, packet, fds), now);
}

void HandleOutbound::Clear() {
  packets_.clear();
  bytes_ = 0;
  full_ = false;
  retry_at_ = kNever;
}

bool HandleOutbound::Note(SendResult result, Instant now) {
  switch (result) {
    case SendResult::kSent:
      return true;
    case SendResult::kFull:
      full_ = true;
      return false;
    case SendResult::kTryLater:
      retry_at_ = After(now, kRetryAfter);
      return false;
    case SendResult::kGone:
      // What the client said before it went is still to be read.
      Clear();
      nobody_reads_ = true;
      return false;
  }
  return false;
}

}  // namespace tenure
