#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/json.h"
#include "client/cli/options.h"

namespace tenure::cli {
namespace {

constexpr std::chrono::nanoseconds kTimeout = std::chrono::seconds(5);

int RunReady(const Globals& globals) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<client::DaemonStatus> status = client->Status({.timeout = globals.timeout});
  if (!status.ok()) return Fail(globals, status.status());
  const client::Readiness& readiness = status->readiness;
  if (globals.json) {
    PrintJson(ToJson(readiness));
  } else {
    const size_t online = readiness.wanted - readiness.pending.size();
    std::cout << (readiness.ready ? "ready: " : "not ready: ") << online << " of "
              << readiness.wanted << " wanted models are online\n";
    for (const client::PendingModel& model : readiness.pending) {
      std::cout << "  " << model.name << ": "
                << (model.loading          ? "is being loaded"
                    : model.reason.empty() ? "waits for its turn"
                                           : model.message)
                << '\n';
    }
    for (const client::Device& device : status->devices) {
      if (device.cordoned) std::cout << "  " << device.name << ": cordoned, takes no new models\n";
    }
  }
  return readiness.ready ? kOk : kFailed;
}

int Run(const Globals& globals) {
  const absl::StatusOr<bool> serving =
      client::CheckHealth(globals.directory, globals.timeout.value_or(kTimeout));
  if (!serving.ok()) return Fail(globals, serving.status());
  if (globals.json) {
    PrintJson({{"serving", *serving}});
  } else {
    std::cout << (*serving ? "serving" : "not serving") << '\n';
  }
  return *serving ? kOk : kFailed;
}

}  // namespace

void AddHealth(CLI::App& app, const Globals& globals, Action& action) {
  CLI::App* const command =
      app.add_subcommand("health", "Ask whether the daemon can serve; exits 1 if it says no");
  const auto ready = std::make_shared<bool>(false);
  command->add_flag("--ready", *ready,
                    "Ask whether the models that it brings online by itself are there");
  command->callback([&globals, &action, ready] {
    action = [&globals, ready] { return *ready ? RunReady(globals) : Run(globals); };
  });
}

}  // namespace tenure::cli
