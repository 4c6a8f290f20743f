#pragma once

// The GPU that the tests of the CUDA backend run on: an emulated one, or with TENURE_REAL_GPU=1 in
// the environment the first that NVIDIA's driver shows.

#include <cstddef>
#include <cuda.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/units.h"
#include "core/device/cuda_device.h"
#include "core/device/cuda_driver.h"
#include "tests/support/emulated_gpu.h"

namespace tenure {

// Null on a real GPU. One for each process, from the first call on.
EmulatedGpu* EmulatedMachine();

// The driver itself, past the backend.
const CudaDriver& RawDriver();

// The first GPU as a Device.
StatusOr<std::unique_ptr<Device>> MakeFirstGpu(const Clock& clock, CudaDeviceOptions options = {});

// What somebody sees who got an exported fd: imports it, and reads `size` bytes through a map of
// its own.
std::vector<std::byte> ReadThroughImport(int fd, Bytes size);

}  // namespace tenure
