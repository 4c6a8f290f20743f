#include <iostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/options.h"

namespace tenure::cli {
namespace {

constexpr std::chrono::nanoseconds kTimeout = std::chrono::seconds(5);

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
  app.add_subcommand("health", "Ask whether the daemon can serve; exits 1 if it says no")
      ->callback([&globals, &action] { action = [&globals] { return Run(globals); }; });
}

}  // namespace tenure::cli
