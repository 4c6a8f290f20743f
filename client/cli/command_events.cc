#include <algorithm>
#include <array>
#include <ctime>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/options.h"

namespace tenure::cli {
namespace {

constexpr std::chrono::seconds kWait(30);

struct Options {
  uint64_t last = 20;
  bool follow = false;
  std::string kind;
};

// "14:03:07.215", of the local day.
std::string FormatTime(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%H:%M:%S", &local);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  std::array<char, 8> fraction{};
  snprintf(fraction.data(), fraction.size(), ".%03d", static_cast<int>(ms));
  return std::string(text.data()) + fraction.data();
}

void Print(const Globals& globals, const client::Event& event) {
  if (globals.json) {
    PrintJsonLine(ToJson(event));
    return;
  }
  std::array<char, 80> start{};
  snprintf(start.data(), start.size(), "%8llu  %s  %-18s",
           static_cast<unsigned long long>(event.sequence), FormatTime(event.time).c_str(),
           event.kind.c_str());
  std::cout << start.data();
  if (!event.device.empty()) std::cout << ' ' << event.device;
  if (event.ledger) std::cout << ' ' << event.ledger->arena;
  if (!event.subject.empty()) std::cout << "  " << event.subject;
  if (event.bytes > 0) std::cout << "  " << FormatBytes(event.bytes);
  if (!event.detail.empty()) std::cout << "  " << event.detail;
  if (event.took.count() > 0) std::cout << "  " << FormatDuration(event.took);
  if (event.session_id != 0) std::cout << "  session " << event.session_id;
  if (!event.program.empty()) std::cout << " (" << event.program << '/' << event.instance << ')';
  if (event.ledger) std::cout << "  free " << FormatBytes(event.ledger->free);
  std::cout << '\n';
}

int Run(const Globals& globals, const Options& options) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  // There are no events after that, but the number of the last.
  absl::StatusOr<client::EventList> list = client->ListEvents({.after = UINT64_MAX});
  if (!list.ok()) return Fail(globals, list.status());
  uint64_t seen = list->last - std::min(list->last, options.last);
  while (true) {
    const bool wait = options.follow && seen >= list->last;
    list = client->ListEvents({.after = seen, .wait = wait ? kWait : std::chrono::seconds(0)});
    if (!list.ok()) return Fail(globals, list.status());
    for (const client::Event& event : list->events) {
      seen = event.sequence;
      if (options.kind.empty() || event.kind == options.kind) Print(globals, event);
    }
    std::cout << std::flush;
    if (!options.follow && seen >= list->last) return kOk;
  }
}

}  // namespace

void AddEvents(CLI::App& app, const Globals& globals, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("events",
                                         "Print what happened to memory and to who holds it: "
                                         "loads, reclaims, leases, pools, refusals");
  command->add_option("--last", options->last, "How many of the past, 10000 at most")
      ->capture_default_str();
  command->add_flag("--follow,-f", options->follow, "Go on with what happens from now on");
  command->add_option("--kind", options->kind, "Only events of this kind, such as LOAD_FAILED");
  command->footer("The last number of a line is what the arena has free right after the event.");
  command->callback([&globals, &action, options] {
    action = [&globals, options] { return Run(globals, *options); };
  });
}

}  // namespace tenure::cli
