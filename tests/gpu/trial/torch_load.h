#pragma once

#include <string>

#include "tests/gpu/trial/part.h"

namespace tenure::trial {

// Times how PyTorch brings the safetensors file to the first GPU, with its own allocator and with
// `safetensors`, where python3 can import them; says so where it cannot.
void MeasureTorch(const std::string& path, int rounds, const Setting& setting);

}  // namespace tenure::trial
