#include "tests/support/model_generator.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/check.h"

namespace tenure {
namespace {

struct Entry {
  Architecture architecture;
  std::string_view name;
  uint64_t layers;
};

constexpr std::array<Entry, 3> kArchitectures = {{
    {Architecture::kRecMlp, "rec-mlp", 7},
    {Architecture::kGnn, "gnn", 12},
    {Architecture::kMoe, "moe", 14},
}};

constexpr uint64_t kTables = 26;
constexpr uint64_t kBottomLayers = 3;
constexpr uint64_t kDenseFeatures = 13;
constexpr uint64_t kEdgeFeatures = 16;
constexpr uint64_t kExperts = 8;
constexpr uint64_t kVocabulary = 4096;

const Entry& EntryOf(Architecture architecture) {
  for (const Entry& entry : kArchitectures) {
    if (entry.architecture == architecture) return entry;
  }
  TENURE_CHECK(false);
}

class SpecList {
 public:
  void Add(std::string name, DType dtype, std::vector<uint64_t> shape) {
    specs_.push_back({.name = std::move(name), .dtype = dtype, .shape = std::move(shape)});
  }
  // Weight and bias of a dense layer.
  void AddLinear(const std::string& name, DType dtype, uint64_t out, uint64_t in) {
    Add(name + ".weight", dtype, {out, in});
    Add(name + ".bias", dtype, {out});
  }
  std::vector<TensorSpec> Take() { return std::move(specs_); }

 private:
  std::vector<TensorSpec> specs_;
};

// The sizes that GenerateModel settles on.
struct Dimensions {
  uint64_t layers;
  uint64_t width;
  uint64_t free;  // table rows, nodes or expert width
  std::optional<uint64_t> wider_layer;

  uint64_t Widened(uint64_t layer, uint64_t extent) const {
    return wider_layer == layer ? extent + (extent + 1) / 2 : extent;
  }
};

// The largest multiple of 8 for which `elements_per_square` x width^2 elements fit, at least 8.
uint64_t WidthFor(Bytes bytes, uint64_t element_bytes, uint64_t elements_per_square) {
  const double square =
      static_cast<double>(bytes.count()) / static_cast<double>(element_bytes * elements_per_square);
  return std::max<uint64_t>(8, static_cast<uint64_t>(std::sqrt(square)) / 8 * 8);
}

uint64_t AutomaticWidth(Architecture architecture, Bytes target, uint64_t layers) {
  switch (architecture) {
    case Architecture::kRecMlp:
      return std::min<uint64_t>(1024, WidthFor(Bytes(target.count() / 4), 4, layers + 2));
    case Architecture::kGnn:
      return std::min<uint64_t>(1024, WidthFor(Bytes(target.count() / 2), 4, 9 * layers + 2));
    case Architecture::kMoe:
      // Experts about twice as wide as the model.
      return WidthFor(target, 2, layers * (4 + 2 * kExperts * 2) + 2);
  }
  TENURE_CHECK(false);
}

// The first four tables have `rows` rows, every next four half as many, down to a sixteenth.
uint64_t TableRows(uint64_t table, uint64_t rows) {
  return std::max<uint64_t>(1, rows >> std::min<uint64_t>(table / 4, 4));
}

std::vector<TensorSpec> RecMlp(const Dimensions& d) {
  SpecList list;
  const uint64_t vector = std::max<uint64_t>(4, d.width / 8);
  for (uint64_t i = 0; i < kTables; ++i) {
    list.Add(absl::StrCat("embeddings.", i, ".weight"), DType::kF32,
             {TableRows(i, d.free), vector});
  }
  for (uint64_t i = 0; i < kBottomLayers; ++i) {
    list.AddLinear(absl::StrCat("bottom.", i), DType::kF32,
                   i + 1 == kBottomLayers ? vector : d.width, i == 0 ? kDenseFeatures : d.width);
  }
  // A wider layer makes the input of the next one wider too.
  uint64_t in = vector * (kTables + 1);
  for (uint64_t i = 0; i < d.layers; ++i) {
    const uint64_t out = i + 1 == d.layers ? 1 : d.Widened(i, d.width);
    list.AddLinear(absl::StrCat("top.", i), DType::kF32, out, in);
    in = out;
  }
  return list.Take();
}

std::vector<TensorSpec> Gnn(const Dimensions& d) {
  SpecList list;
  list.Add("node_embedding.weight", DType::kF32, {d.free, d.width});
  for (uint64_t i = 0; i < d.layers; ++i) {
    const std::string layer = absl::StrCat("layers.", i);
    const uint64_t hidden = d.Widened(i, d.width);
    list.AddLinear(layer + ".message.0", DType::kF32, hidden, 2 * d.width + kEdgeFeatures);
    list.AddLinear(layer + ".message.1", DType::kF32, d.width, hidden);
    list.Add(layer + ".update.weight_ih", DType::kF32, {3 * d.width, d.width});
    list.Add(layer + ".update.weight_hh", DType::kF32, {3 * d.width, d.width});
    list.Add(layer + ".update.bias_ih", DType::kF32, {3 * d.width});
    list.Add(layer + ".update.bias_hh", DType::kF32, {3 * d.width});
    list.AddLinear(layer + ".norm", DType::kF32, d.width, 1);
  }
  list.AddLinear("edge_encoder.0", DType::kF32, kEdgeFeatures, kEdgeFeatures);
  list.AddLinear("edge_encoder.1", DType::kF32, kEdgeFeatures, kEdgeFeatures);
  list.AddLinear("readout.0", DType::kF32, d.width, d.width);
  list.AddLinear("readout.1", DType::kF32, 1, d.width);
  return list.Take();
}

std::vector<TensorSpec> Moe(const Dimensions& d) {
  SpecList list;
  list.Add("embed_tokens.weight", DType::kBF16, {kVocabulary, d.width});
  for (uint64_t i = 0; i < d.layers; ++i) {
    const std::string layer = absl::StrCat("layers.", i);
    list.Add(layer + ".input_norm.weight", DType::kF32, {d.width});
    list.Add(layer + ".attention.qkv.weight", DType::kBF16, {3 * d.width, d.width});
    list.Add(layer + ".attention.out.weight", DType::kBF16, {d.width, d.width});
    list.Add(layer + ".post_norm.weight", DType::kF32, {d.width});
    list.Add(layer + ".router.weight", DType::kF32, {kExperts, d.width});
    const uint64_t hidden = d.Widened(i, d.free);
    for (uint64_t e = 0; e < kExperts; ++e) {
      const std::string expert = absl::StrCat(layer, ".experts.", e);
      list.Add(expert + ".up.weight", DType::kBF16, {hidden, d.width});
      list.Add(expert + ".down.weight", DType::kBF16, {d.width, hidden});
    }
  }
  list.Add("norm.weight", DType::kF32, {d.width});
  list.Add("lm_head.weight", DType::kBF16, {kVocabulary, d.width});
  return list.Take();
}

std::vector<TensorSpec> Generate(Architecture architecture, const Dimensions& d) {
  switch (architecture) {
    case Architecture::kRecMlp:
      return RecMlp(d);
    case Architecture::kGnn:
      return Gnn(d);
    case Architecture::kMoe:
      return Moe(d);
  }
  TENURE_CHECK(false);
}

Bytes TotalOf(const std::vector<TensorSpec>& specs) {
  Bytes total;
  for (const TensorSpec& spec : specs) {
    const StatusOr<Bytes> size = TensorBytes(spec);
    TENURE_CHECK(size.ok());
    total += *size;
  }
  return total;
}

// The largest free dimension with which the model still stays within `target`, at least 1.
uint64_t FreeDimensionFor(Architecture architecture, Dimensions d, Bytes target) {
  uint64_t fits = 1;
  uint64_t beyond = target.count() + 2;
  while (beyond - fits > 1) {
    d.free = fits + (beyond - fits) / 2;
    (TotalOf(Generate(architecture, d)) <= target ? fits : beyond) = d.free;
  }
  return fits;
}

}  // namespace

std::string_view ArchitectureName(Architecture architecture) { return EntryOf(architecture).name; }

std::optional<Architecture> ParseArchitecture(std::string_view name) {
  for (const Entry& entry : kArchitectures) {
    if (entry.name == name) return entry.architecture;
  }
  return std::nullopt;
}

std::vector<TensorSpec> GenerateModel(const ModelParameters& parameters) {
  const Architecture architecture = parameters.architecture;
  Dimensions d{};
  d.layers = parameters.layers != 0 ? parameters.layers : EntryOf(architecture).layers;
  d.width = parameters.width != 0 ? parameters.width
                                  : AutomaticWidth(architecture, parameters.target, d.layers);
  d.free = FreeDimensionFor(architecture, d, parameters.target);
  d.layers += parameters.extra_layers;
  TENURE_CHECK(!parameters.wider_layer.has_value() || *parameters.wider_layer < d.layers);
  d.wider_layer = parameters.wider_layer;
  return Generate(architecture, d);
}

}  // namespace tenure
