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

namespace tenure::cli {
namespace {

struct Options {
  std::string name;
  uint64_t revision = 0;
  std::string device;
};

int Run(const Globals& globals, const Options& options) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<client::UnloadResult> result =
      client->Unload(options.name, options.revision, options.device, {.timeout = globals.timeout});
  if (!result.ok()) return Fail(globals, result.status());
  if (globals.json) {
    PrintJson(ToJson(*result));
    return kOk;
  }
  std::cout << options.name << ": " << client::ModelStateName(result->state) << ", "
            << FormatBytes(result->freed_bytes) << " freed, " << FormatBytes(result->retained_bytes)
            << " retained, " << FormatBytes(result->deferred_bytes) << " deferred\n";
  PrintHolders(std::cout, result->holders);
  return kOk;
}

}  // namespace

void AddUnload(CLI::App& app, const Globals& globals, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("unload", "Take a model offline");
  command->add_option("name", options->name, "The model's name")->required();
  command->add_option("--revision", options->revision, "Another revision than the current one");
  command->add_option("--device", options->device, "The device, if several have the model");
  command->callback([&globals, &action, options] {
    action = [&globals, options] { return Run(globals, *options); };
  });
}

}  // namespace tenure::cli
