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

nlohmann::ordered_json ToJson(const client::LeakReport& report) {
  nlohmann::ordered_json leaks = nlohmann::ordered_json::array();
  for (const client::Leak& leak : report.leaks) {
    leaks.push_back({{"device", leak.device},
                     {"arena", leak.arena},
                     {"kind", leak.kind},
                     {"subject", leak.subject},
                     {"session_id", leak.session_id},
                     {"program", leak.program},
                     {"instance", leak.instance},
                     {"bytes", leak.bytes},
                     {"held_ns", leak.held.count()}});
    if (leak.usual) leaks.back()["usual_ns"] = leak.usual->count();
  }
  nlohmann::ordered_json stranded = nlohmann::ordered_json::array();
  for (const client::StrandedMemory& each : report.stranded) {
    stranded.push_back({{"device", each.device},
                        {"arena", each.arena},
                        {"stranded", each.stranded},
                        {"quarantined", each.quarantined}});
  }
  return {{"leaks", std::move(leaks)}, {"stranded", std::move(stranded)}};
}

void Print(const client::LeakReport& report) {
  if (report.leaks.empty()) {
    std::cout << "nothing has been held for suspiciously long\n";
  } else {
    Table table({{"DEVICE"},
                 {"HOLDER"},
                 {"KIND"},
                 {"OF"},
                 {"SIZE", Align::kRight},
                 {"HELD", Align::kRight},
                 {"USUAL", Align::kRight}});
    for (const client::Leak& leak : report.leaks) {
      table.AddRow({leak.device, leak.program + "/" + leak.instance, leak.kind, leak.subject,
                    FormatBytes(leak.bytes), FormatDuration(leak.held),
                    leak.usual ? "< " + FormatDuration(*leak.usual) : "unknown"});
    }
    table.Print(std::cout);
  }
  for (const client::StrandedMemory& each : report.stranded) {
    const std::string arena = each.device + " " + each.arena + ": ";
    if (each.stranded > 0) {
      std::cout << arena << FormatBytes(each.stranded)
                << " stranded: given back, but somebody still has maps or file descriptors of it\n";
    }
    if (each.quarantined > 0) {
      std::cout << arena << FormatBytes(each.quarantined)
                << " quarantined: a session lost its lease and has not answered; see `tenurectl"
                   " sessions`\n";
    }
  }
}

int Run(const Globals& globals) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<client::LeakReport> report = client->Leaks({.timeout = globals.timeout});
  if (!report.ok()) return Fail(globals, report.status());
  if (globals.json) {
    PrintJson(ToJson(*report));
  } else {
    Print(*report);
  }
  return kOk;
}

}  // namespace

void AddLeaks(CLI::App& app, const Globals& globals, Action& action) {
  CLI::App* const command = app.add_subcommand(
      "leaks", "List leases and buffers that somebody may have forgotten, and memory nobody gets");
  command->footer(
      "Listed is what has been held for ten times as long as 99 in 100 of its kind that were\n"
      "released, and for a minute at least; for an hour, as long as too few were released to say.\n"
      "To get it back: end the program, or ask it to release; what is leased is never taken away.");
  command->callback([&globals, &action] { action = [&globals] { return Run(globals); }; });
}

}  // namespace tenure::cli
