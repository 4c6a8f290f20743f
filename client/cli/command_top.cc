#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/memory_map.h"
#include "client/cli/options.h"
#include "client/cli/terminal.h"
#include "client/cli/top_screen.h"

namespace tenure::cli {
namespace {

constexpr char kMeaning[] =
    "A bar is an arena: # leased, + loading, o idle, ! quarantined, : padding, - retained,\n"
    "~ pooled, = cached, x stranded, . not asked for yet. LEASED counts a model once for each\n"
    "session that has a lease on it. Rates are those between two refreshes. q or Ctrl-C ends.\n";

absl::StatusOr<MemoryMap> Take(const Globals& globals, const client::Client& client) {
  const absl::StatusOr<std::string> json = client.MemoryMapJson({.timeout = globals.timeout});
  if (!json.ok()) return json.status();
  return ReadMap(*json);
}

int RunOnce(const Globals& globals, const client::Client& client) {
  if (globals.json) {
    const absl::StatusOr<std::string> json = client.MemoryMapJson({.timeout = globals.timeout});
    if (!json.ok()) return Fail(globals, json.status());
    PrintJson(nlohmann::ordered_json::parse(*json));
    return kOk;
  }
  const absl::StatusOr<MemoryMap> map = Take(globals, client);
  if (!map.ok()) return Fail(globals, map.status());
  std::cout << TopScreen(*map, nullptr, {.size = TerminalSize(), .color = false, .all = true});
  return kOk;
}

// Ends when the user wants it, or with the daemon.
absl::Status RunLive(const Globals& globals, const client::Client& client,
                     std::chrono::nanoseconds interval) {
  FullScreen screen;
  std::optional<MemoryMap> before;
  std::optional<MemoryMap> now;
  auto due = std::chrono::steady_clock::now();
  while (true) {
    if (std::chrono::steady_clock::now() >= due) {
      absl::StatusOr<MemoryMap> map = Take(globals, client);
      if (!map.ok()) return map.status();
      before = std::move(now);
      now = *std::move(map);
      due = std::chrono::steady_clock::now() + interval;
    }
    const bool color = std::getenv("NO_COLOR") == nullptr;
    screen.Show(TopScreen(*now, before ? &*before : nullptr,
                          {.size = TerminalSize(), .color = color, .all = false}));
    const auto left = std::max(std::chrono::nanoseconds::zero(),
                               std::chrono::nanoseconds(due - std::chrono::steady_clock::now()));
    if (screen.Wait(left) == FullScreen::Wish::kQuit) return absl::OkStatus();
  }
}

int Run(const Globals& globals, bool once, std::chrono::nanoseconds interval) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  if (once || globals.json || isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
    return RunOnce(globals, *client);
  }
  const absl::Status ended = RunLive(globals, *client, interval);
  return ended.ok() ? static_cast<int>(kOk) : Fail(globals, ended);
}

}  // namespace

void AddTop(CLI::App& app, const Globals& globals, Action& action) {
  struct Options {
    bool once = false;
    std::string interval = "1s";
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "top", "Show arenas, models and sessions by what they take, again and again");
  command->footer(kMeaning);
  command->add_flag("--once", options->once,
                    "Print once and end, as it also does where there is no terminal");
  command->add_option("--interval", options->interval, "How often to look, such as 500ms [1s]")
      ->check(CheckDuration);
  command->callback([&globals, &action, options] {
    const std::chrono::nanoseconds interval = std::max<std::chrono::nanoseconds>(
        *ParseDuration(options->interval), std::chrono::milliseconds(100));
    action = [&globals, options, interval] { return Run(globals, options->once, interval); };
  });
}

}  // namespace tenure::cli
