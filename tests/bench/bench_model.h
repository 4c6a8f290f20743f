#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/layout/tensor_spec.h"
#include "tenure/client.h"
#include "tests/bench/baselines.h"

namespace tenure::bench {

// A checkpoint of 300 tensors, like a transformer with experts, in a file that lies in the page
// cache. Thread-compatible.
class BenchModel {
 public:
  // The tensors of such a model, together exactly `payload`. REQUIRES: payload >= 16 MiB.
  static std::vector<TensorSpec> Specs(Bytes payload);

  // Writes the file; every name and seed has other bytes.
  BenchModel(std::string name, std::string path, const std::vector<TensorSpec>& specs,
             uint64_t seed);

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  Bytes payload() const { return Bytes(file_.view().size()) - start_; }

  // Reads all tensors as CachedFile::Read does. REQUIRES: `into` is as large as the payload.
  void ReadPayload(std::span<std::byte> into) const { file_.Read(start_, into); }

  // Throws std::runtime_error unless every tensor of the lease has the file's bytes.
  void Check(const WeightLease& lease) const;

 private:
  const std::string name_;
  const std::string path_;
  const std::vector<TensorSpec> specs_;  // in the order of the file
  const CachedFile file_;
  const Bytes start_;  // where in the file the first tensor is
};

}  // namespace tenure::bench
