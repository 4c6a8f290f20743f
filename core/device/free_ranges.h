#pragma once

#include <map>
#include <optional>

#include "core/base/units.h"

namespace tenure {

// Which parts of a range of addresses are free. Takes the first that is large enough, and joins
// what is given back with its neighbours. Thread-compatible.
class FreeRanges {
 public:
  explicit FreeRanges(Range all) : free_({{all.begin(), all.size()}}) {}

  // nullopt if no free part has `size` bytes. REQUIRES: `size` is not zero.
  std::optional<Range> Take(Bytes size);
  // REQUIRES: all of `range` was taken.
  void Give(Range range);

 private:
  std::map<Bytes, Bytes> free_;  // begin, size; neighbours are joined
};

}  // namespace tenure
