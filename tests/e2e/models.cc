#include "tests/e2e/models.h"

#include "tests/support/safetensors_writer.h"

namespace tenure {

ModelFile WriteModel(const Tenured& daemon, const std::string& name,
                     const ModelParameters& parameters, uint64_t seed) {
  ModelFile file;
  file.path = daemon.ModelPath(name + ".safetensors");
  file.specs = GenerateModel(parameters);
  file.seed = seed;
  WriteSafetensors(file.path, file.specs, seed);
  return file;
}

}  // namespace tenure
