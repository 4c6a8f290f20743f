#include "core/base/clock.h"

namespace tenure {

Instant SteadyClock::Now() const { return std::chrono::steady_clock::now(); }

}  // namespace tenure
