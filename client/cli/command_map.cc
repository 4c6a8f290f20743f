#include <iostream>
#include <memory>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/files.h"
#include "client/cli/map_text.h"
#include "client/cli/memory_map.h"
#include "client/cli/options.h"
#include "client/cli/terminal.h"
#include "client/cli/torch_snapshot.h"
#include "proto/map_page/map_page.h"

namespace tenure::cli {
namespace {

struct MapOptions {
  std::string html;
  std::string from;
  std::string format = "text";
  std::string output;
  size_t rows = 20;
};

constexpr char kExamples[] =
    "Examples:\n"
    "  tenurectl map                                  what lies where, drawn to scale\n"
    "  tenurectl map --json > map.json                keep it, to look at it later\n"
    "  tenurectl map --from map.json --rows 100       look at it\n"
    "  tenurectl map --html map.html                  a page for any browser, without a daemon\n"
    "  tenurectl map --format torch-snapshot --output map.pickle\n"
    "                                                 for https://pytorch.org/memory_viz\n"
    "The same, live, is at http://METRICS_ADDRESS/ of the daemon.\n";

absl::StatusOr<std::string> TakeJson(const Globals& globals, const MapOptions& options) {
  if (!options.from.empty()) {
    const absl::StatusOr<std::string> text = ReadFile(options.from);
    if (!text.ok()) return text.status();
    return FindMap(*text);
  }
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return client.status();
  return client->MemoryMapJson({.timeout = globals.timeout});
}

int Run(const Globals& globals, const MapOptions& options) {
  const absl::StatusOr<std::string> json = TakeJson(globals, options);
  if (!json.ok()) return Fail(globals, json.status());
  const absl::StatusOr<MemoryMap> map = ReadMap(*json);
  if (!map.ok()) return Fail(globals, map.status());
  std::string text;
  if (!options.html.empty()) {
    const absl::Status written = WriteFile(options.html, MapPage(*json));
    if (!written.ok()) return Fail(globals, written);
    std::cerr << "wrote " << options.html << '\n';
    return kOk;
  }
  if (options.format == "torch-snapshot") {
    text = TorchSnapshot(*map);
  } else if (globals.json) {
    text = nlohmann::ordered_json::parse(*json).dump(2) + "\n";
  } else {
    text = DrawMap(*map, TerminalSize().columns, options.rows);
  }
  if (options.output.empty()) {
    std::cout << text << std::flush;
    return kOk;
  }
  const absl::Status written = WriteFile(options.output, text);
  if (!written.ok()) return Fail(globals, written);
  std::cerr << "wrote " << options.output << '\n';
  return kOk;
}

}  // namespace

void AddMap(CLI::App& app, const Globals& globals, Action& action) {
  const auto options = std::make_shared<MapOptions>();
  CLI::App* command =
      app.add_subcommand("map", "Draw what lies where in every arena, to scale, and who holds it");
  command->footer(kExamples);
  command->add_option("--html", options->html, "Write a page that shows this moment to a file")
      ->type_name("FILE");
  command
      ->add_option("--from", options->from,
                   "Of a file instead of a daemon: a map, or anything that has one in it")
      ->type_name("FILE");
  command
      ->add_option("--format", options->format,
                   "text, or torch-snapshot for PyTorch's memory viewer [text]")
      ->check(CLI::IsMember({"text", "torch-snapshot"}));
  command->add_option("--output", options->output, "Write to a file instead of the terminal")
      ->type_name("FILE");
  command->add_option("--rows", options->rows, "Of each table, at most [20]");
  command->callback([&globals, &action, options] {
    if (options->format == "torch-snapshot" && options->output.empty() && options->html.empty() &&
        isatty(STDOUT_FILENO) != 0) {
      throw CLI::ValidationError("--format", "a pickle is not for a terminal: give --output FILE");
    }
    action = [&globals, options] { return Run(globals, *options); };
  });
}

}  // namespace tenure::cli
