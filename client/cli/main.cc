// tenurectl: loads, shows and watches what a tenured holds.

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "client/cli/command.h"
#include "client/cli/nearest.h"
#include "client/cli/options.h"

namespace tenure::cli {
namespace {

constexpr char kExitCodes[] =
    "Exit codes:\n"
    "  0  done\n"
    "  1  refused, or failed; `fit`: not now; `drain`: still held\n"
    "  2  the command line makes no sense\n"
    "  3  no daemon answers in the directory\n"
    "  4  no such model, file, device or refusal\n"
    "  5  not done in time\n"
    "  6  `plan`: higher than the capacity\n";

// Names the word that stands where a command belongs and is none, with the command that it is most
// like. Empty if there is no such word.
std::string UnknownCommand(CLI::App& app) {
  if (!app.get_subcommands().empty()) return {};
  const std::vector<std::string> words = app.remaining();
  const auto word = std::find_if(words.begin(), words.end(),
                                 [](const std::string& each) { return !each.starts_with('-'); });
  if (word == words.end()) return {};
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(command->get_name());
  }
  const std::string nearest = NearestOf(known, *word);
  return "There is no command `" + *word + "`." +
         (nearest.empty() ? "" : " Did you mean `" + nearest + "`?");
}

int Main(int argc, char** argv) {
  Globals globals;
  Action action;
  std::string timeout;
  CLI::App app("Controls tenured, the model-serving memory daemon.", "tenurectl");
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--directory", globals.directory,
                 "Where the daemon's sockets lie [$TENURE_DIR or /run/tenure]");
  app.add_flag("--json", globals.json, "Print JSON instead of tables");
  app.add_option("--timeout", timeout, "Give up after this long, such as 30s or 2m")
      ->check(CheckDuration);
  for (const auto add :
       {AddLoad,   AddUnload, AddModels,  AddModel,  AddWatch,  AddArenas,  AddSessions, AddMap,
        AddTop,    AddFit,    AddExplain, AddEvents, AddDump,   AddSummary, AddLeaks,    AddPlan,
        AddCordon, AddDrain,  AddTrim,    AddReload, AddHealth, AddVersion}) {
    add(app, globals, action);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = error.get_exit_code() == 0 ? "" : UnknownCommand(app);
    if (unknown.empty()) return app.exit(error) == 0 ? kOk : kUsage;
    std::cerr << unknown << "\nRun with --help for more information.\n";
    return kUsage;
  }
  if (!timeout.empty()) globals.timeout = ParseDuration(timeout);
  return action();
}

}  // namespace

absl::StatusOr<client::Client> Connect(const Globals& globals) {
  client::ConnectOptions options;
  options.directory = globals.directory;
  options.program = "tenurectl";
  if (globals.timeout) options.timeout = *globals.timeout;
  return client::Client::Connect(options);
}

}  // namespace tenure::cli

int main(int argc, char** argv) { return tenure::cli::Main(argc, argv); }
