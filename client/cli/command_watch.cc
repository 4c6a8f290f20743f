#include <iostream>
#include <memory>

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

struct Options {
  std::string name;
  std::string device;
};

void PrintEvent(const Globals& globals, const client::ModelEvent& event) {
  if (globals.json) {
    PrintJsonLine(ToJson(event));
    return;
  }
  const client::Model& model = event.model;
  std::cout << model.name << '@' << model.revision << ' ' << client::ModelStateName(model.state);
  if (!model.device.empty()) std::cout << " on " << model.device;
  if (event.progress) std::cout << "  " << ProgressLine(*event.progress);
  for (const client::Holder& holder : model.holders) {
    std::cout << "  " << holder.program << '/' << holder.instance << ": " << holder.lease_count
              << (holder.quarantined ? " (quarantined)" : "");
  }
  if (!event.error.empty()) std::cout << "  " << event.error;
  std::cout << std::endl;
}

int Run(const Globals& globals, const Options& options) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  std::string error;
  const auto on_event = [&](const client::ModelEvent& event) {
    PrintEvent(globals, event);
    error = event.error;
    return true;
  };
  absl::Status status;
  do {
    status = client->Watch(options.name, options.device, on_event, {.timeout = globals.timeout});
    // Without a limit from the user, a watch that ran out of its own is begun again.
  } while (!globals.timeout && status.code() == absl::StatusCode::kDeadlineExceeded);
  if (!status.ok()) return Fail(globals, status);
  return error.empty() ? kOk : kFailed;
}

}  // namespace

void AddWatch(CLI::App& app, const Globals& globals, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "watch", "Print a model's changes until its memory is gone or its load failed");
  command->add_option("name", options->name, "The model's name; it may come later")->required();
  command->add_option("--device", options->device, "One device only");
  command->callback([&globals, &action, options] {
    action = [&globals, options] { return Run(globals, *options); };
  });
}

}  // namespace tenure::cli
