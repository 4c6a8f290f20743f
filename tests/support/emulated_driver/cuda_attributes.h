#pragma once

#include "tests/support/emulated_driver/cuda_types.h"
#include "tests/support/emulated_driver/machine_config.h"

namespace tenure::emulated {

// What a GPU answers; 0, "not supported" for most, where the emulation has nothing to tell.
int AttributeOf(const GpuConfig& gpu, CUdevice_attribute attribute);

}  // namespace tenure::emulated
