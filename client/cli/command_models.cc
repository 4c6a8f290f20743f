// The list of models, and one of them.

#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/format.h"
#include "client/cli/holders.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/table.h"

namespace tenure::cli {
namespace {

struct Options {
  std::string name;
  uint64_t revision = 0;
  std::string device;
  bool tensors = false;
};

uint64_t Leases(const client::Model& model) {
  uint64_t leases = 0;
  for (const client::Holder& holder : model.holders) leases += holder.lease_count;
  return leases;
}

std::string Kept(const client::Model& model) {
  if (model.expires_in) return FormatDuration(*model.expires_in);
  const bool offline =
      model.state == client::ModelState::kRetained || model.state == client::ModelState::kEmpty;
  return offline ? "for ever" : "";
}

std::string Shape(const client::TensorPlace& tensor) {
  std::string text = "[";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

int RunModels(const Globals& globals) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<std::vector<client::Model>> models =
      client->List({.timeout = globals.timeout});
  if (!models.ok()) return Fail(globals, models.status());
  if (globals.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const client::Model& model : *models) list.push_back(ToJson(model));
    PrintJson({{"models", list}});
    return kOk;
  }
  if (models->empty()) {
    std::cout << "no models\n";
    return kOk;
  }
  Table table({{"NAME"},
               {"REV", Align::kRight},
               {"STATE"},
               {"DEVICE"},
               {"SIZE", Align::kRight},
               {"TENSORS", Align::kRight},
               {"LEASES", Align::kRight},
               {"PINNED"},
               {"KEPT", Align::kRight},
               {"PATH"}});
  for (const client::Model& model : *models) {
    table.AddRow({model.name, std::to_string(model.revision),
                  std::string(client::ModelStateName(model.state)), model.device,
                  FormatBytes(model.region_bytes), std::to_string(model.tensor_count),
                  std::to_string(Leases(model)), model.pinned ? "yes" : "", Kept(model),
                  model.path});
  }
  table.Print(std::cout);
  return kOk;
}

void PrintModel(const client::Model& model) {
  std::vector<std::pair<std::string, std::string>> fields = {
      {"name", model.name},
      {"revision", std::to_string(model.revision)},
      {"state", std::string(client::ModelStateName(model.state))},
      {"device", model.device},
      {"path", model.path},
      {"architecture", model.architecture_key},
      {"content", model.content_id.empty() ? "gone" : model.content_id},
      {"region",
       std::to_string(model.region_id) + ", generation " + std::to_string(model.generation)},
      {"tensors", std::to_string(model.tensor_count) + ", " + FormatBytes(model.tensor_bytes)},
      {"takes", FormatBytes(model.region_bytes)},
      {"pinned", model.pinned ? "yes" : "no"},
      {"leases", std::to_string(Leases(model))}};
  if (const std::string kept = Kept(model); !kept.empty()) fields.emplace_back("kept", kept);
  PrintFields(std::cout, fields);
  PrintHolders(std::cout, model.holders);
}

int RunModel(const Globals& globals, const Options& options) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<client::Model> model =
      client->Get(options.name, options.revision, options.device, {.timeout = globals.timeout});
  if (!model.ok()) return Fail(globals, model.status());
  absl::StatusOr<std::vector<client::TensorPlace>> tensors;
  if (options.tensors) {
    tensors = client->ListTensors(model->name, model->revision, model->device,
                                  {.timeout = globals.timeout});
    if (!tensors.ok()) return Fail(globals, tensors.status());
  }
  if (globals.json) {
    nlohmann::ordered_json json = ToJson(*model);
    if (options.tensors) {
      json["tensors"] = nlohmann::ordered_json::array();
      for (const client::TensorPlace& tensor : *tensors) json["tensors"].push_back(ToJson(tensor));
    }
    PrintJson(json);
    return kOk;
  }
  PrintModel(*model);
  if (options.tensors) {
    Table table(
        {{"TENSOR"}, {"DTYPE"}, {"SHAPE"}, {"OFFSET", Align::kRight}, {"SIZE", Align::kRight}});
    for (const client::TensorPlace& tensor : *tensors) {
      table.AddRow({tensor.name, tensor.dtype, Shape(tensor), std::to_string(tensor.offset),
                    FormatBytes(tensor.bytes)});
    }
    table.Print(std::cout);
  }
  return kOk;
}

}  // namespace

void AddModels(CLI::App& app, const Globals& globals, Action& action) {
  app.add_subcommand("models", "List the models of which memory is held")
      ->callback([&globals, &action] { action = [&globals] { return RunModels(globals); }; });
}

void AddModel(CLI::App& app, const Globals& globals, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("model", "Show one model and who holds it");
  command->add_option("name", options->name, "The model's name")->required();
  command->add_option("--revision", options->revision, "Another revision than the current one");
  command->add_option("--device", options->device, "The device, if several have the model");
  command->add_flag("--tensors", options->tensors, "List its tensors too");
  command->callback([&globals, &action, options] {
    action = [&globals, options] { return RunModel(globals, *options); };
  });
}

}  // namespace tenure::cli
