#pragma once

#include <cstddef>
#include <vector>

#include "tests/support/emulated_driver/machine_config.h"

namespace tenure::emulated {

// The positions of the GPUs that a process sees, in the order of its ordinals. `variable` is the
// value of CUDA_VISIBLE_DEVICES, null if it is not set: ordinals and beginnings of uuids that fit
// one GPU only, up to the first that fits none. One that is named twice leaves none at all.
std::vector<size_t> VisibleGpus(const MachineConfig& machine, const char* variable);

}  // namespace tenure::emulated
