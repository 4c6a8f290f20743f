#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/options.h"

namespace tenure::cli {
namespace {

constexpr size_t kWidth = 61;
constexpr size_t kNameWidth = 29;
constexpr size_t kNumberWidth = 13;

// What holds memory now, and what only keeps it.
uint64_t Active(const client::ArenaLedger& ledger) { return ledger.leased + ledger.loading; }
uint64_t Inactive(const client::ArenaLedger& ledger) {
  return ledger.idle + ledger.retained + ledger.quarantined + ledger.cached + ledger.pooled;
}

void PrintRule(char line) { std::cout << '|' << std::string(kWidth, line) << "|\n"; }

void PrintCentred(const std::string& text) {
  const size_t room = kWidth - std::min(kWidth, text.size());
  std::cout << '|' << std::string(room / 2, ' ') << text << std::string(room - room / 2, ' ')
            << "|\n";
}

void PrintRow(const std::string& name, const std::string& now, const std::string& peak) {
  const auto pad = [](size_t width, const std::string& text) {
    return std::string(width - std::min(width, text.size()), ' ');
  };
  std::cout << "| " << name << pad(kNameWidth, name) << "|" << pad(kNumberWidth, now) << now << " |"
            << pad(kNumberWidth, peak) << peak << " |\n";
}

void Print(const client::ArenaSummary& summary) {
  const client::ArenaLedger& ledger = summary.ledger;
  PrintRule('=');
  PrintCentred("Tenure memory summary: " + summary.device + " " + ledger.arena);
  PrintRule('-');
  PrintCentred("requests: " + std::to_string(summary.requests) + "   failed: " +
               std::to_string(summary.failed) + "   retries: " + std::to_string(summary.reclaims));
  PrintRule('=');
  PrintRow("Metric", "Cur Usage", "Peak Usage");
  PrintRule('-');
  PrintRow("Allocated memory", FormatBytes(ledger.allocated), FormatBytes(summary.peak_allocated));
  PrintRow("Requested memory", FormatBytes(ledger.requested), "");
  PrintRow("Active memory", FormatBytes(Active(ledger)), "");
  PrintRow("Inactive memory", FormatBytes(Inactive(ledger)), "");
  PrintRow("Reserved memory", FormatBytes(ledger.reserved), FormatBytes(summary.peak_reserved));
  PrintRow("Free memory", FormatBytes(ledger.free), "");
  PrintRow("Largest free", FormatBytes(ledger.largest_free), "");
  if (!summary.segments.empty()) {
    PrintRule('-');
    PrintRow("Segments", "In use", "Cached");
    PrintRule('-');
    for (const client::SegmentsOfSize& segments : summary.segments) {
      PrintRow("of " + FormatBytes(segments.size), std::to_string(segments.used),
               std::to_string(segments.cached));
    }
  }
  PrintRule('=');
}

nlohmann::ordered_json ToJson(const client::ArenaSummary& summary) {
  nlohmann::ordered_json segments = nlohmann::ordered_json::array();
  for (const client::SegmentsOfSize& each : summary.segments) {
    segments.push_back({{"size", each.size}, {"used", each.used}, {"cached", each.cached}});
  }
  return {{"device", summary.device},
          {"ledger", cli::ToJson(summary.ledger)},
          {"active", Active(summary.ledger)},
          {"inactive", Inactive(summary.ledger)},
          {"peak_reserved", summary.peak_reserved},
          {"peak_allocated", summary.peak_allocated},
          {"requests", summary.requests},
          {"failed", summary.failed},
          {"retries", summary.reclaims},
          {"segments", std::move(segments)}};
}

int Run(const Globals& globals, bool reset_peak) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<std::vector<client::ArenaSummary>> arenas =
      client->Summary(reset_peak, {.timeout = globals.timeout});
  if (!arenas.ok()) return Fail(globals, arenas.status());
  if (globals.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const client::ArenaSummary& summary : *arenas) json.push_back(ToJson(summary));
    PrintJson(json);
    return kOk;
  }
  for (const client::ArenaSummary& summary : *arenas) Print(summary);
  return kOk;
}

}  // namespace

void AddSummary(CLI::App& app, const Globals& globals, Action& action) {
  const auto reset_peak = std::make_shared<bool>(false);
  CLI::App* const command = app.add_subcommand(
      "summary", "Summarize each arena in the words of PyTorch's memory_summary()");
  command->add_flag("--reset-peak", *reset_peak,
                    "Let the peaks count anew from now on; for operators");
  command->footer(
      "Active is leased or being filled; inactive is idle, retained, quarantined, cached or "
      "pooled.\n"
      "Retries: how often memory was taken back from somebody to make room for a request.");
  command->callback([&globals, &action, reset_peak] {
    action = [&globals, reset_peak] { return Run(globals, *reset_peak); };
  });
}

}  // namespace tenure::cli
