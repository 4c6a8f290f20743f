#include <cstdint>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/fit_table.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/refusal_causes.h"
#include "client/cli/table.h"

namespace tenure::cli {
namespace {

void Print(const client::Refusal& refusal) {
  std::vector<std::pair<std::string, std::string>> fields = {
      {"refusal", std::to_string(refusal.refusal_id)},
      {"when", FormatDuration(refusal.age) + " ago"},
      {"call", refusal.method},
      {"by", refusal.program + "/" + refusal.instance + " (session " +
                 std::to_string(refusal.session_id) + ")"},
      {"reason", refusal.reason},
      {"message", refusal.message}};
  fields.insert(fields.end(), refusal.values.begin(), refusal.values.end());
  PrintFields(std::cout, fields);
  if (refusal.now) {
    std::cout << "\nthe same now:\n";
    PrintFits(std::cout, {*refusal.now});
  }
  std::cout << '\n';
  PrintCauses(std::cout, refusal.reason);
}

int Run(const Globals& globals, uint64_t id) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<client::Refusal> refusal =
      client->ExplainRefusal(id, {.timeout = globals.timeout});
  if (!refusal.ok()) return Fail(globals, refusal.status());
  if (globals.json) {
    PrintJson(ToJson(*refusal));
  } else {
    Print(*refusal);
  }
  return kOk;
}

}  // namespace

void AddExplain(CLI::App& app, const Globals& globals, Action& action) {
  const auto id = std::make_shared<uint64_t>(0);
  CLI::App* command = app.add_subcommand(
      "explain",
      "Tell why a call was refused for want of room, what has changed, and what to do about it");
  command->add_option("id", *id,
                      "The refusal's id, at the end of its message; the last one unless given");
  command->callback(
      [&globals, &action, id] { action = [&globals, id] { return Run(globals, *id); }; });
}

}  // namespace tenure::cli
