#pragma once

#include <chrono>
#include <thread>

#include "core/base/clock.h"

namespace tenure {

// Asks until `condition` holds; false if it does not within half a minute, which nothing takes.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const auto give_up = SteadyClock().Now() + std::chrono::seconds(30);
  while (!condition()) {
    if (SteadyClock().Now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace tenure
