#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/layout/tensor_spec.h"
#include "tenure/client.h"

namespace tenure {

// A model's file, mapped, to hold leases against. Move-only, thread-compatible.
class ModelImage {
 public:
  // `specs` in the order of the file, as WriteSafetensors wrote it. Throws std::runtime_error if
  // the file cannot be mapped.
  ModelImage(const std::string& path, std::vector<TensorSpec> specs);
  ~ModelImage();
  ModelImage(ModelImage&& other) noexcept;
  ModelImage& operator=(ModelImage&& other) = delete;

  // What differs between the lease and the file; empty if nothing does.
  std::string Difference(const WeightLease& lease) const;
  size_t size_bytes() const { return view_.size(); }

 private:
  std::vector<TensorSpec> specs_;
  std::span<const std::byte> view_;
};

}  // namespace tenure
