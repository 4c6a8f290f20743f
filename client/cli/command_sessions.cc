#include <iostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/table.h"

namespace tenure::cli {
namespace {

int Run(const Globals& globals) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<std::vector<client::Session>> sessions =
      client->Sessions({.timeout = globals.timeout});
  if (!sessions.ok()) return Fail(globals, sessions.status());
  if (globals.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const client::Session& session : *sessions) list.push_back(ToJson(session));
    PrintJson({{"sessions", list}});
    return kOk;
  }
  Table table({{"SESSION", Align::kRight},
               {"PROGRAM"},
               {"INSTANCE"},
               {"STATE"},
               {"PID", Align::kRight},
               {"UID", Align::kRight},
               {"LEASES", Align::kRight},
               {"MAPPED", Align::kRight},
               {"QUARANTINED", Align::kRight},
               {"SILENT FOR", Align::kRight}});
  for (const client::Session& session : *sessions) {
    table.AddRow({std::to_string(session.session_id), session.program, session.instance,
                  std::string(client::SessionStateName(session.state)),
                  session.pid == 0 ? "?" : std::to_string(session.pid), std::to_string(session.uid),
                  std::to_string(session.lease_count), std::to_string(session.share_count),
                  std::to_string(session.quarantined_share_count),
                  FormatDuration(session.silent_for)});
  }
  table.Print(std::cout);
  return kOk;
}

}  // namespace

void AddSessions(CLI::App& app, const Globals& globals, Action& action) {
  app.add_subcommand("sessions", "List the daemon's clients, this command among them")
      ->callback([&globals, &action] { action = [&globals] { return Run(globals); }; });
}

}  // namespace tenure::cli
