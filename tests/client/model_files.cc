#include "tests/client/model_files.h"

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <utility>

#include "tests/client/lease_bytes.h"
#include "tests/support/model_generator.h"
#include "tests/support/safetensors_writer.h"

namespace tenure {

ModelFile WriteModel(const DaemonProcess& daemon, const std::string& name, uint64_t mib,
                     uint64_t seed) {
  ModelFile file;
  file.path = daemon.models() + "/" + name + ".safetensors";
  ModelParameters parameters;
  parameters.target = MiB(mib);
  file.specs = GenerateModel(parameters);
  file.seed = seed;
  WriteSafetensors(file.path, file.specs, seed);
  return file;
}

WeightLease LoadAndLease(const Client& client, const std::string& name, const ModelFile& file) {
  absl::StatusOr<client::LoadResult> loaded =
      client.Load({.name = name, .path = file.path, .acquire = true});
  if (!loaded.ok()) throw std::runtime_error(loaded.status().ToString());
  return *std::move(loaded->lease);
}

std::string Difference(const WeightLease& lease, const ModelFile& file) {
  if (lease.tensor_count() != file.specs.size()) {
    return std::to_string(lease.tensor_count()) + " tensors";
  }
  for (const TensorSpec& spec : file.specs) {
    const std::optional<client::Tensor> tensor = lease.Find(spec.name);
    if (!tensor) return spec.name + " is missing";
    const std::vector<std::byte> expected = ContentOf(spec, file.seed);
    if (tensor->bytes.size() != expected.size()) return spec.name + " has another size";
    if (!Shows(lease, tensor->offset, expected)) return spec.name + " has other bytes";
  }
  return {};
}

}  // namespace tenure
