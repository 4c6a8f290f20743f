#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/duration_histogram.h"
#include "core/base/status.h"
#include "core/store/load.h"

namespace tenure {

// Why retained memory was reclaimed.
enum class ReclaimCause {
  kExpired,   // its TTL was over
  kPressure,  // a load needed the room
  kTrimmed,   // an operator wanted it back
};
inline constexpr size_t kReclaimCauses = 3;
std::string_view ReclaimCauseName(ReclaimCause cause);

// Of loads: 10 ms to 320 s, doubling.
inline constexpr std::array kLoadBounds = {0.01, 0.02, 0.04,  0.08,  0.16,  0.32,  0.64,   1.28,
                                           2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 320.0};
using LoadDurations = DurationHistogram<kLoadBounds>;

// What one Device's store did since start. All are monotonic.
struct StoreCounters {
  std::array<uint64_t, kReuses> loads{};                            // that succeeded, by reuse
  std::map<std::string, uint64_t> failed_loads;                     // by Reason
  std::array<LoadDurations, kReuses> load_durations{};              // of those that succeeded
  std::array<LoadDurations, kLoadPhases.size()> phase_durations{};  // of those that copied
  std::array<uint64_t, kReclaimCauses> reclaims{};
  uint64_t copied_bytes = 0;
  uint64_t leases_granted = 0;
  uint64_t leases_released = 0;
  uint64_t leases_expired = 0;
  uint64_t leases_lost = 0;  // with their Device
  uint64_t recalls_sent = 0;
  uint64_t recalls_unanswered = 0;
};

}  // namespace tenure
