#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "client/cpp/deadline.h"

namespace tenure::client {

// The most that was in use lately: over the last `ttl`, and up to an eighth of it longer. The time
// is cut into eighths of `ttl`, each of which has a peak of its own, and the oldest leaves when a
// new one begins. Thread-compatible.
class UsePeak {
 public:
  explicit UsePeak(Duration ttl) : part_(ttl / kParts) {}

  // So many bytes are in use now.
  void Note(uint64_t used) {
    if (used > parts_[now_]) parts_[now_] = used;
  }
  // It is `now`, and so many bytes are in use.
  void Pass(Instant now, uint64_t used);
  uint64_t peak() const;

 private:
  static constexpr int kParts = 8;

  const Duration part_;
  std::array<uint64_t, kParts + 1> parts_{};  // in a circle; the one after now_ is the oldest
  size_t now_ = 0;
  Instant began_{};  // when the present part did; the epoch before the first Pass
};

}  // namespace tenure::client
