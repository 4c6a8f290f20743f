#include <iostream>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/progress_bar.h"

namespace tenure::cli {
namespace {

std::string Plural(uint32_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// "ranker/v3@1 on host:0: adopted, 512 MiB copied in 213 ms (2.35 GiB/s), 0 segments created, 9
// reused".
std::string ResultLine(const client::LoadResult& result) {
  const client::Model& model = result.model;
  std::string line = model.name + "@" + std::to_string(model.revision) + " on " + model.device +
                     ": " + std::string(client::ReuseName(result.reuse)) + ", " +
                     FormatBytes(result.bytes_copied) + " copied in " +
                     FormatDuration(result.phases.total);
  if (result.bytes_copied > 0) {
    line += " (" + FormatRate(result.bytes_copied, result.phases.total) + ")";
  }
  line += ", " + Plural(result.segments_created, "segment") + " created, " +
          std::to_string(result.segments_reused) + " reused";
  for (size_t i = 0; i < result.reclaimed.size(); ++i) {
    line += (i == 0 ? ", reclaimed " : " ") + result.reclaimed[i];
  }
  return line;
}

std::string ValidLine(const client::Model& model) {
  return model.path + " is valid: " + Plural(model.tensor_count, "tensor") + ", " +
         FormatBytes(model.tensor_bytes) + ", takes " + FormatBytes(model.region_bytes) +
         ", architecture " + model.architecture_key;
}

int Run(const Globals& globals, const client::LoadRequest& request) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  std::optional<ProgressBar> bar;
  if (!globals.json && !request.validate_only) bar.emplace(*client, request.name, request.device);
  const absl::StatusOr<client::LoadResult> result =
      client->Load(request, {.timeout = globals.timeout});
  bar.reset();
  if (!result.ok()) return Fail(globals, result.status());
  if (globals.json) {
    PrintJson(ToJson(*result));
  } else {
    std::cout << (request.validate_only ? ValidLine(result->model) : ResultLine(*result)) << '\n';
  }
  return kOk;
}

}  // namespace

void AddLoad(CLI::App& app, const Globals& globals, Action& action) {
  struct Options {
    client::LoadRequest request;
    std::string retain_ttl;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("load", "Bring a model online");
  command->add_option("name", options->request.name, "The model's name")->required();
  command
      ->add_option(
          "path", options->request.path,
          "A safetensors file or a directory of shards: ROOT/relative, or as the daemon sees it")
      ->required();
  command->add_option("--device", options->request.device,
                      "The device to load on, such as host:0 [where the daemon thinks best]");
  command->add_flag("--pin", options->request.pin, "Never unload it for want of room");
  command
      ->add_option(
          "--retain-ttl", options->retain_ttl,
          "How long to keep the memory after the last lease: 10m, 0, never [as configured]")
      ->check(CheckRetention);
  command->add_flag("--validate-only", options->request.validate_only,
                    "Only check the files; take no memory");
  command->add_option("--request-id", options->request.request_id,
                      "Makes repeating the call safe within one session");
  command->callback([&globals, &action, options] {
    if (!options->retain_ttl.empty())
      options->request.retention = *ParseRetention(options->retain_ttl);
    action = [&globals, options] { return Run(globals, options->request); };
  });
}

}  // namespace tenure::cli
