#include <iostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/format.h"
#include "client/cli/options.h"
#include "client/cli/table.h"

namespace tenure::cli {
namespace {

int Run(const Globals& globals) {
  const std::string own(client::Version());
  const absl::StatusOr<client::Client> client = Connect(globals);
  absl::StatusOr<client::DaemonStatus> status =
      client.ok() ? client->Status({.timeout = globals.timeout}) : client.status();
  if (globals.json) {
    nlohmann::ordered_json json = {{"tenurectl", own}, {"tenured", nullptr}};
    if (status.ok()) {
      json["tenured"] = {{"version", status->version},
                         {"boot_id", status->boot_id},
                         {"uptime_ns", status->uptime.count()},
                         {"metrics_address", status->metrics_address}};
      json["tenured"]["model_roots"] = nlohmann::ordered_json::object();
      for (const client::ModelRoot& root : status->model_roots) {
        json["tenured"]["model_roots"][root.name] = root.path;
      }
    }
    PrintJson(json);
  } else {
    std::vector<std::pair<std::string, std::string>> fields = {{"tenurectl", own}};
    if (status.ok()) {
      fields.emplace_back("tenured", status->version);
      fields.emplace_back("boot id", status->boot_id);
      fields.emplace_back("uptime", FormatDuration(status->uptime));
      if (!status->metrics_address.empty()) fields.emplace_back("metrics", status->metrics_address);
      for (const client::ModelRoot& root : status->model_roots) {
        fields.emplace_back("root " + root.name, root.path);
      }
    }
    PrintFields(std::cout, fields);
  }
  return status.ok() ? kOk : Fail(globals, status.status());
}

}  // namespace

void AddVersion(CLI::App& app, const Globals& globals, Action& action) {
  app.add_subcommand("version", "Print the versions of this program and of the daemon")
      ->callback([&globals, &action] { action = [&globals] { return Run(globals); }; });
}

}  // namespace tenure::cli
