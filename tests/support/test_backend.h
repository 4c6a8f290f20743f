#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenure {

// Whether the daemons of this process's tests are to serve a GPU: TENURE_TEST_BACKEND=cuda in the
// environment. The GPU is an emulated one, made by the first DeviceEntry and seen by every process
// that is started afterwards; LD_LIBRARY_PATH must lead to its driver from the start.
bool TestsOnCuda();

// The name of the device that such a daemon has: "host:0" or "gpu:0".
std::string TestDeviceName();

// That device in a daemon's configuration, with so much for weights, "256MiB", and, beside it, for
// runtime; both in MiB.
std::string TestDeviceEntry(const std::string& weights, const std::string& runtime = "0MiB");

// Calls so far of an entry point of the emulated driver, "cuMemMap", by all processes; none where
// the machine's own memory serves.
uint64_t DriverCallsOf(std::string_view entry);

}  // namespace tenure
