#pragma once

#include <cstdint>
#include <string>

#include "tests/client/model_files.h"
#include "tests/e2e/tenured.h"
#include "tests/support/model_generator.h"

namespace tenure {

// Writes `NAME.safetensors` under the daemon's model root. Equal parameters give equal
// architectures, different seeds different bytes.
ModelFile WriteModel(const Tenured& daemon, const std::string& name,
                     const ModelParameters& parameters, uint64_t seed);

}  // namespace tenure
