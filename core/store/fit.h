#pragma once

#include <string>

#include "core/base/units.h"

namespace tenure {

// What would come of a request for memory.
enum class FitVerdict {
  kNow,           // there is room
  kAfterReclaim,  // there is, once what nobody uses was taken back, which a call waits for
  kWhenReleased,  // there is none before somebody lets go of what is held
  kNever,         // it is more than all of the arena
  kDeviceLost,    // the Device does not serve any more
  kCordoned,      // the Device takes nothing new, on an operator's word
};

// What one Device has to say to a request that nobody has made yet.
struct DeviceFit {
  std::string device;
  FitVerdict verdict = FitVerdict::kNow;
  Bytes needed;       // what was asked about, rounded up as it would be granted
  Bytes capacity;     // of the arena
  Bytes free;         // of that
  Bytes largest_now;  // the largest request that would be granted now
  Bytes largest;      // likewise once what nobody uses was taken back
  std::string explanation;
};

}  // namespace tenure
