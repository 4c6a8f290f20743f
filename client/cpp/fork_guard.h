#pragma once

#include <cstdint>

namespace tenure::client {

// Tells whether this process is the one that made the object, at the price of one load: threads,
// connections and mappings do not survive fork(). Thread-safe.
class ForkGuard {
 public:
  ForkGuard();

  // True in every process forked from the one that constructed this.
  bool forked() const;

 private:
  uint64_t generation_;
};

}  // namespace tenure::client
