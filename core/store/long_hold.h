#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/hold_durations.h"
#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/store/session.h"

namespace tenure {

// A lease or Buffer that has been held far longer than its kind usually is.
struct LongHold {
  std::string device;
  std::string arena;    // "weights" or "runtime"
  std::string kind;     // "lease", or the kind of a Buffer
  std::string subject;  // `name@revision`; the id of a Buffer
  SessionId session;
  SessionIdentity identity;
  Bytes bytes;
  Duration held{};
  Duration usual{};  // most of its kind were released within this; zero: too few were to say
};

// What is usual for a kind, out of what has been released so far.
struct UsualHold {
  explicit UsualHold(const HoldDurations& released);

  Duration usual{};     // as in LongHold
  Duration too_long{};  // ten times that; an hour where too few were released to say
};

}  // namespace tenure
