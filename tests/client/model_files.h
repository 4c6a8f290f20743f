#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/layout/tensor_spec.h"
#include "tenure/client.h"
#include "tests/support/daemon_process.h"

namespace tenure {

// A model on disk with the bytes that its tensors must have.
struct ModelFile {
  std::string path;
  std::vector<TensorSpec> specs;
  uint64_t seed = 0;
};

// Writes `NAME.safetensors` under the daemon's model root: about `mib` MiB in a few dozen tensors.
// Equal sizes give equal architectures, different seeds different bytes.
ModelFile WriteModel(const DaemonProcess& daemon, const std::string& name, uint64_t mib,
                     uint64_t seed = 1);

// Loads it under `name` and leases it with the same call. Throws std::runtime_error if that is
// refused.
WeightLease LoadAndLease(const Client& client, const std::string& name, const ModelFile& file);

// What differs between the lease and the file; empty if nothing does.
std::string Difference(const WeightLease& lease, const ModelFile& file);

}  // namespace tenure
