// Writes made-up checkpoints: one model, or the catalogue that the quickstart serves.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tests/support/model_generator.h"
#include "tests/support/safetensors_writer.h"

namespace tenure {
namespace {

struct Model {
  std::string name;
  ModelParameters parameters;
  uint64_t seed = 0;
};

std::vector<Model> Catalogue(double scale) {
  const auto scaled = [scale](Bytes bytes) {
    return Bytes(static_cast<uint64_t>(static_cast<double>(bytes.count()) * scale));
  };
  const ModelParameters rec{.architecture = Architecture::kRecMlp, .target = scaled(MiB(256))};
  const ModelParameters gnn{.architecture = Architecture::kGnn, .target = scaled(MiB(128))};
  const ModelParameters moe{.architecture = Architecture::kMoe, .target = scaled(GiB(1))};
  ModelParameters moe_wide = moe;
  moe_wide.wider_layer = 7;
  return {{"rec-a", rec, 1}, {"rec-b", rec, 2}, {"gnn-a", gnn, 3},
          {"moe-a", moe, 4}, {"moe-b", moe, 5}, {"moe-wide", moe_wide, 6}};
}

void Write(const std::string& directory, const Model& model, size_t shards) {
  const std::vector<TensorSpec> specs = GenerateModel(model.parameters);
  const std::string path = directory + "/" + model.name;
  if (shards == 0) {
    WriteSafetensors(path + ".safetensors", specs, model.seed);
  } else {
    WriteShardedSafetensors(path, specs, std::min(shards, specs.size()), model.seed);
  }
  uint64_t bytes = 0;
  for (const TensorSpec& spec : specs) bytes += TensorBytes(spec)->count();
  std::printf("%-10s %-8s %4zu tensors %12llu bytes (%s)\n", model.name.c_str(),
              std::string(ArchitectureName(model.parameters.architecture)).c_str(), specs.size(),
              static_cast<unsigned long long>(bytes), FormatBytes(Bytes(bytes)).c_str());
}

int Main(int argc, char** argv) {
  CLI::App app("Writes made-up safetensors checkpoints.");
  std::string out;
  bool catalogue = false;
  double scale = 1.0;
  Model model;
  std::string architecture = "moe";
  uint64_t bytes = MiB(64).count();
  uint64_t wider_layer = 0;
  size_t shards = 0;
  app.add_option("--out", out, "Directory to write to; made if missing")->required();
  auto* all = app.add_flag("--catalogue", catalogue, "Write the quickstart's six models");
  app.add_option("--scale", scale, "Sizes of the catalogue's models, 1 is 256 MiB to 1.1 GiB")
      ->check(CLI::Range(0.0001, 64.0))
      ->needs(all);
  auto* name = app.add_option("--name", model.name, "Name of the one model to write");
  app.add_option("--arch", architecture, "Its architecture")
      ->check(CLI::IsMember({"rec-mlp", "gnn", "moe"}));
  app.add_option("--bytes", bytes, "Its size, such as 1GiB")->transform(CLI::AsSizeValue(true));
  app.add_option("--seed", model.seed, "Its bytes");
  app.add_option("--layers", model.parameters.layers, "Its layers");
  app.add_option("--extra-layers", model.parameters.extra_layers, "Layers on top of its size");
  app.add_option("--width", model.parameters.width, "Its width");
  auto* wider = app.add_option("--wider-layer", wider_layer, "A layer wider than the others");
  app.add_option("--shards", shards, "Write a directory with this many shards and an index");
  name->excludes(all);
  CLI11_PARSE(app, argc, argv);
  if (!catalogue && model.name.empty()) {
    std::fprintf(stderr, "make-models: --name or --catalogue is required\n");
    return 1;
  }

  std::filesystem::create_directories(out);
  if (catalogue) {
    for (const Model& each : Catalogue(scale)) Write(out, each, shards);
    return 0;
  }
  model.parameters.architecture = *ParseArchitecture(architecture);
  model.parameters.target = Bytes(bytes);
  if (!wider->empty()) model.parameters.wider_layer = wider_layer;
  Write(out, model, shards);
  return 0;
}

}  // namespace
}  // namespace tenure

int main(int argc, char** argv) {
  try {
    return tenure::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make-models: %s\n", error.what());
    return 1;
  }
}
