#pragma once

#include <algorithm>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/base/units.h"

namespace tenure {

// What Sessions say that they still map from before the daemon's start. Thread-compatible.
class Survivors {
 public:
  // Replaces what the Session said before. Each claims at most what there is, so that no sum of
  // claims overflows. True if anything changed.
  bool Set(SessionId session, Bytes claimed, Bytes capacity) {
    if (claimed.zero()) return claims_.erase(session) > 0;
    claims_[session] = std::min(claimed, capacity);
    return true;
  }
  Bytes Sum() const {
    Bytes sum;
    for (const auto& [session, claimed] : claims_) sum += claimed;
    return sum;
  }

 private:
  std::unordered_map<SessionId, Bytes> claims_;
};

}  // namespace tenure
