#pragma once

// The models that the clients of a storm load, and the counts that they keep.

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/support/model_generator.h"

namespace tenure {

// Half of them of one architecture, half of another, all with bytes of their own.
inline constexpr int kStormModels = 6;

inline ModelParameters StormParameters(int model) {
  return model % 2 == 0 ? ModelParameters{.target = MiB(1)}
                        : ModelParameters{.architecture = Architecture::kGnn, .target = MiB(2)};
}
inline std::string StormName(int model) { return "m" + std::to_string(model); }

// In a file that all clients of a storm map, so that what a killed one did counts.
struct StormCounts {
  std::atomic<uint64_t> checks = 0;  // of all bytes of a lease
  std::atomic<uint64_t> refusals = 0;
  std::atomic<uint64_t> reconnects = 0;
  std::atomic<uint64_t> wrong_bytes = 0;
  std::atomic<uint64_t> stale_accepted = 0;
};

}  // namespace tenure
