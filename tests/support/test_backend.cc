#include "tests/support/test_backend.h"

#include <cstdlib>
#include <stdexcept>

#ifdef TENURE_EMULATED_GPU_TESTS
#include "tests/support/emulated_gpu.h"
#include "tests/support/temp_dir.h"
#endif

namespace tenure {
namespace {

#ifdef TENURE_EMULATED_GPU_TESTS
const EmulatedGpu& Machine() {
  // The GPU's memory is memory.
  static const TempDir directory("/dev/shm");
  static const EmulatedGpu machine = [] {
    emulated::MachineConfig config;
    // Tests start many clients, each with a context.
    config.context_cost = MiB(2);
    return EmulatedGpu(directory.MakeDir("gpu"), config);
  }();
  return machine;
}
void UseMachine() { setenv("TENURE_EMULATED_GPU", Machine().folder().c_str(), 1); }
uint64_t CallsOf(std::string_view entry) { return Machine().CallsOf(entry); }
#else
void UseMachine() { throw std::runtime_error("built without NVIDIA's cuda.h"); }
uint64_t CallsOf(std::string_view) { return 0; }
#endif

}  // namespace

bool TestsOnCuda() {
  const char* const backend = std::getenv("TENURE_TEST_BACKEND");
  return backend != nullptr && backend == std::string_view("cuda");
}

std::string TestDeviceName() { return TestsOnCuda() ? "gpu:0" : "host:0"; }

std::string TestDeviceEntry(const std::string& weights, const std::string& runtime) {
  if (TestsOnCuda()) UseMachine();
  const uint64_t total = std::stoull(weights) + std::stoull(runtime);
  return "{name: \"" + TestDeviceName() + "\", backend: " + (TestsOnCuda() ? "cuda" : "host") +
         ", total: " + std::to_string(total) + "MiB, weights: " + weights +
         ", runtime: " + runtime + "}";
}

uint64_t DriverCallsOf(std::string_view entry) { return TestsOnCuda() ? CallsOf(entry) : 0; }

}  // namespace tenure
