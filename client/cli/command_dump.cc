#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/files.h"

namespace tenure::cli {
namespace {

int Run(const Globals& globals, const std::string& path) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<std::string> record = client->FlightRecordJson({.timeout = globals.timeout});
  if (!record.ok()) return Fail(globals, record.status());
  if (path.empty()) {
    std::cout << *record << std::endl;
    return kOk;
  }
  const absl::Status written = WriteFile(path, *record + "\n");
  if (!written.ok()) return Fail(globals, written);
  std::cerr << "wrote " << path << '\n';
  return kOk;
}

}  // namespace

void AddDump(CLI::App& app, const Globals& globals, Action& action) {
  const auto path = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "dump", "Write the flight record: all memory now, and the last 10,000 events, as JSON");
  command->add_option("file", *path, "Where to; standard output unless given");
  command->footer(
      "The daemon writes the same into its directory when it refuses a request for room.\n"
      "To look at one: tenurectl map --from FILE.");
  command->callback(
      [&globals, &action, path] { action = [&globals, path] { return Run(globals, *path); }; });
}

}  // namespace tenure::cli
