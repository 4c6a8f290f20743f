#pragma once

// Tensor names, types and shapes of made-up models that are like real ones.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/layout/tensor_spec.h"

namespace tenure {

enum class Architecture {
  kRecMlp,  // 26 embedding tables, most bytes in few of them, and dense layers; F32
  kGnn,     // node embeddings, message passing layers with gated updates, a readout; F32
  kMoe,     // a transformer with a router and 8 experts in each layer; BF16 with F32 norms
};

// "rec-mlp", "gnn", "moe".
std::string_view ArchitectureName(Architecture architecture);
std::optional<Architecture> ParseArchitecture(std::string_view name);

struct ModelParameters {
  Architecture architecture = Architecture::kRecMlp;
  // What all tensors together should come to. Reached within a few percent above 1 MiB: one
  // dimension (table rows, nodes, expert width) takes what the rest leaves.
  Bytes target = MiB(16);
  // Zero: the architecture's own (46, 129 and 297 tensors), and a width that suits `target`.
  uint64_t layers = 0;
  uint64_t width = 0;
  // A layer that is half as wide again inside as its neighbours; on top of `target`.
  std::optional<uint64_t> wider_layer = std::nullopt;
  // Layers added at the end; on top of `target`.
  uint64_t extra_layers = 0;
};

// In the order in which such models are usually saved, which is not the canonical one.
// REQUIRES: wider_layer < layers.
std::vector<TensorSpec> GenerateModel(const ModelParameters& parameters);

}  // namespace tenure
