#pragma once

#include <string>

namespace tenure {

// Whether the daemons of this process's tests are to serve a GPU: TENURE_TEST_BACKEND=cuda in the
// environment. The GPU is an emulated one, made by the first DeviceEntry and seen by every process
// that is started afterwards; LD_LIBRARY_PATH must lead to its driver from the start.
bool TestsOnCuda();

// The name of the device that such a daemon has: "host:0" or "gpu:0".
std::string TestDeviceName();

// That device in a daemon's configuration, all of `capacity` for weights.
std::string TestDeviceEntry(const std::string& capacity);

}  // namespace tenure
