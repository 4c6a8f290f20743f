#include <array>
#include <cstdio>
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

std::string Percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return "";
  std::array<char, 32> text{};
  snprintf(text.data(), text.size(), "%.1f%%",
           100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text.data();
}

void PrintLedger(const client::ArenaLedger& ledger) {
  struct Row {
    const char* name;
    uint64_t bytes;
    const char* meaning;
  };
  const std::array<Row, 18> rows = {{
      {"capacity", ledger.capacity, "what the arena may hold: the sum of the next eight"},
      {"leased", ledger.leased, "regions with a live lease"},
      {"loading", ledger.loading, "regions being filled"},
      {"idle", ledger.idle, "active regions without a lease"},
      {"retained", ledger.retained, "offline regions kept for a while"},
      {"quarantined", ledger.quarantined, "readable by a session that did not answer for it"},
      {"padding", ledger.padding, "what alignment and granule cost"},
      {"stranded", ledger.stranded, "given up, still pinned by somebody"},
      {"free", ledger.free, "cached + pooled + unbacked"},
      {"cached", ledger.cached, "held from the backend, nobody's"},
      {"pooled", ledger.pooled, "in a session's pool, in no buffer"},
      {"unbacked", ledger.unbacked, "not asked for yet"},
      {"reserved", ledger.reserved, "held from the backend in all"},
      {"allocated", ledger.allocated, "leased + loading + idle + quarantined + padding"},
      {"requested", ledger.requested, "of that, what callers asked for"},
      {"largest_free", ledger.largest_free, "the largest request that would succeed now"},
      {"lost", ledger.lost, "was capacity before the device was lost"},
      {"fragmentation", 0, "1 - largest_free / free"},
  }};
  Table table(
      {{ledger.arena}, {"BYTES", Align::kRight}, {"", Align::kRight}, {"", Align::kRight}, {""}});
  for (const Row& row : rows) {
    if (row.name == std::string_view("fragmentation")) {
      std::array<char, 32> ratio{};
      snprintf(ratio.data(), ratio.size(), "%.3f", ledger.fragmentation_ratio);
      table.AddRow({row.name, ratio.data(), "", "", row.meaning});
    } else {
      table.AddRow({row.name, std::to_string(row.bytes), FormatBytes(row.bytes),
                    Percent(row.bytes, ledger.capacity), row.meaning});
    }
  }
  table.Print(std::cout);
}

int Run(const Globals& globals) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<client::DaemonStatus> status = client->Status({.timeout = globals.timeout});
  if (!status.ok()) return Fail(globals, status.status());
  if (globals.json) {
    PrintJson({{"devices", ToJson(*status)["devices"]}});
    return kOk;
  }
  for (const client::Device& device : status->devices) {
    const client::BackendCounters& counters = device.backend_counters;
    std::cout << device.name << "  " << device.backend << ", " << FormatBytes(device.total_bytes)
              << " in all, granule " << FormatBytes(device.granule_bytes) << ", " << device.uuid
              << '\n'
              << "segments: " << counters.segments_created << " created ("
              << FormatBytes(counters.bytes_created) << "), " << counters.segments_destroyed
              << " destroyed (" << FormatBytes(counters.bytes_destroyed) << "), "
              << counters.exports << " exports\n";
    if (device.foreign_bytes > 0) {
      std::cout << "used by others, as the driver says: " << FormatBytes(device.foreign_bytes)
                << '\n';
    }
    if (device.cordoned) {
      std::cout << "cordoned: takes no new models and sessions until `tenurectl uncordon "
                << device.name << "`\n";
    }
    if (!device.lost.empty()) std::cout << "does not serve any more: " << device.lost << '\n';
    std::cout << '\n';
    for (const client::ArenaLedger& ledger : device.arenas) {
      PrintLedger(ledger);
      std::cout << '\n';
    }
  }
  return kOk;
}

}  // namespace

void AddArenas(CLI::App& app, const Globals& globals, Action& action) {
  app.add_subcommand("arenas", "Print the whole ledger of every arena")
      ->callback([&globals, &action] { action = [&globals] { return Run(globals); }; });
}

}  // namespace tenure::cli
