#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/format.h"
#include "client/cli/options.h"
#include "client/cli/table.h"

// What operators do: cordon, uncordon, drain, trim, reload.

namespace tenure::cli {
namespace {

constexpr char kRights[] =
    "For root, the daemon's own user, and whom its configuration names under `admin`.";

int SetCordoned(const Globals& globals, const std::string& device, bool cordoned) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const client::CallOptions options{.timeout = globals.timeout};
  const absl::StatusOr<bool> changed =
      cordoned ? client->Cordon(device, options) : client->Uncordon(device, options);
  if (!changed.ok()) return Fail(globals, changed.status());
  if (globals.json) {
    PrintJson({{"device", device}, {"cordoned", cordoned}, {"changed", *changed}});
  } else {
    std::cout << device << (*changed ? " is now " : " was already ")
              << (cordoned ? "cordoned" : "uncordoned") << '\n';
  }
  return kOk;
}

void AddCordonCommand(CLI::App& app, const Globals& globals, Action& action, bool cordon,
                      const char* about, const char* more) {
  const auto device = std::make_shared<std::string>();
  CLI::App* const command = app.add_subcommand(cordon ? "cordon" : "uncordon", about);
  command->footer(std::string(more) + "\n\n" + kRights);
  command->add_option("device", *device, "The device: gpu:0, host:0; `tenurectl arenas` lists them")
      ->required();
  command->callback([&globals, &action, device, cordon] {
    action = [&globals, device, cordon] { return SetCordoned(globals, *device, cordon); };
  });
}

struct DrainOptions {
  std::string device;
  bool all = false;
  std::string timeout;
};

nlohmann::ordered_json ToJson(const client::DeviceDrain& drain) {
  nlohmann::ordered_json holders = nlohmann::ordered_json::array();
  for (const client::DeviceHolder& holder : drain.holders) {
    holders.push_back({{"arena", holder.arena},
                       {"session_id", holder.session_id},
                       {"program", holder.program},
                       {"instance", holder.instance},
                       {"model", holder.model},
                       {"lease_count", holder.lease_count},
                       {"bytes", holder.bytes},
                       {"quarantined", holder.quarantined}});
  }
  return {{"device", drain.device},
          {"drained", drain.drained},
          {"running_loads", drain.running_loads},
          {"holders", std::move(holders)}};
}

void Print(const client::DeviceDrain& drain) {
  if (drain.drained) {
    std::cout << drain.device << ": drained, nothing of it is leased, loading or mapped\n";
    return;
  }
  std::cout << drain.device << ": not drained";
  if (drain.running_loads > 0) std::cout << ", loads under way: " << drain.running_loads;
  std::cout << (drain.holders.empty() ? "\n" : "; still held by\n");
  if (drain.holders.empty()) return;
  Table table({{"SESSION", Align::kRight},
               {"PROGRAM"},
               {"INSTANCE"},
               {"HOLDS"},
               {"SIZE", Align::kRight},
               {"NOTE"}});
  for (const client::DeviceHolder& holder : drain.holders) {
    table.AddRow({std::to_string(holder.session_id), holder.program, holder.instance,
                  holder.model.empty() ? "runtime memory" : holder.model, FormatBytes(holder.bytes),
                  holder.quarantined ? "has no lease, and did not answer"
                                     : std::to_string(holder.lease_count) + " leases"});
  }
  table.Print(std::cout);
}

int Drain(const Globals& globals, const DrainOptions& options) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  client::DrainRequest request{.device = options.device};
  request.timeout = options.timeout.empty() ? globals.timeout : ParseDuration(options.timeout);
  const absl::StatusOr<std::vector<client::DeviceDrain>> drains = client->Drain(request);
  if (!drains.ok()) return Fail(globals, drains.status());
  bool drained = true;
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const client::DeviceDrain& each : *drains) {
    drained = drained && each.drained;
    if (globals.json) {
      devices.push_back(ToJson(each));
    } else {
      Print(each);
    }
  }
  if (globals.json) {
    PrintJson({{"drained", drained}, {"devices", std::move(devices)}});
  } else if (!drained) {
    std::cout << "The devices stay cordoned and their models offline: end the holders and drain "
                 "again, or `tenurectl uncordon`.\n";
  }
  return drained ? kOk : kFailed;
}

int Trim(const Globals& globals, const client::TrimRequest& request) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<std::vector<client::DeviceTrim>> trims =
      client->Trim(request, {.timeout = globals.timeout});
  if (!trims.ok()) return Fail(globals, trims.status());
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const client::DeviceTrim& each : *trims) {
    if (globals.json) {
      devices.push_back({{"device", each.device},
                         {"weights_bytes", each.weights_bytes},
                         {"runtime_bytes", each.runtime_bytes}});
    } else {
      std::cout << each.device << ": given back to the system " << FormatBytes(each.weights_bytes)
                << " of weights, " << FormatBytes(each.runtime_bytes) << " of runtime\n";
    }
  }
  if (globals.json) PrintJson({{"devices", std::move(devices)}});
  return kOk;
}

int Reload(const Globals& globals) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<std::vector<client::ConfigChange>> changes =
      client->Reload({.timeout = globals.timeout});
  if (!changes.ok()) return Fail(globals, changes.status());
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const client::ConfigChange& each : *changes) {
    if (globals.json) {
      list.push_back({{"key", each.key}, {"before", each.before}, {"after", each.after}});
    } else {
      std::cout << each.key << ": " << each.before << " -> " << each.after << '\n';
    }
  }
  if (globals.json) {
    PrintJson({{"changes", std::move(list)}});
  } else if (changes->empty()) {
    std::cout << "nothing changed\n";
  }
  return kOk;
}

}  // namespace

void AddCordon(CLI::App& app, const Globals& globals, Action& action) {
  AddCordonCommand(app, globals, action, /*cordon=*/true,
                   "Keep new models and sessions off a device",
                   "Leases and pools that are there go on, and models that are online there can "
                   "still be leased.\nA load or a new pool that names the device is refused with "
                   "CORDONED; one that names none\ngoes to another device. Ends with `uncordon`, "
                   "or when the daemon does.");
  AddCordonCommand(app, globals, action, /*cordon=*/false, "Let a device take new models again",
                   "Ends what `cordon` and `drain` began. Models that a drain took offline are "
                   "brought back\nby loading them.");
}

void AddDrain(CLI::App& app, const Globals& globals, Action& action) {
  const auto options = std::make_shared<DrainOptions>();
  CLI::App* const command = app.add_subcommand("drain", "Empty a device, and say who holds it");
  command->footer(
      std::string("Cordons the device, takes all its models offline, asks the clients that hold "
                  "something\nof it to let go, and waits. Live leases are never ended: who still "
                  "holds memory when the\ntime is over is listed. Exits 0 once nothing is leased, "
                  "loading or mapped, else 1.\nMemory that nobody uses stays with the daemon: "
                  "`tenurectl trim --retained` gives it\nback, too.\n\n") +
      kRights);
  CLI::Option* const device = command->add_option("device", options->device, "The device");
  CLI::Option* const all = command->add_flag("--all", options->all, "Every device");
  all->excludes(device);
  command
      ->add_option("--timeout", options->timeout,
                   "How long to wait for clients [the daemon's drain_timeout]")
      ->check(CheckDuration);
  command->callback([&globals, &action, options] {
    if (options->device.empty() && !options->all) {
      throw CLI::RequiredError("drain: a device or --all");
    }
    action = [&globals, options] { return Drain(globals, *options); };
  });
}

void AddTrim(CLI::App& app, const Globals& globals, Action& action) {
  const auto request = std::make_shared<client::TrimRequest>();
  CLI::App* const command =
      app.add_subcommand("trim", "Give memory that nobody uses back to the system");
  command->footer(std::string("What PyTorch's empty_cache() is to one process, this is to the "
                              "daemon: cached segments of\nboth arenas go back to the driver or "
                              "the kernel now. With --retained, models that are\nonly kept for "
                              "their TTL go, too; they are read again when they come back.\n\n") +
                  kRights);
  command->add_option("device", request->device, "The device [every one]");
  command->add_flag("--retained", request->retained, "Retained models, too");
  command->callback([&globals, &action, request] {
    action = [&globals, request] { return Trim(globals, *request); };
  });
}

void AddReload(CLI::App& app, const Globals& globals, Action& action) {
  CLI::App* const command = app.add_subcommand("reload", "Have the daemon read its configuration");
  command->footer(
      std::string("As SIGHUP. Prints what changed. If anything in the file is wrong, or "
                  "needs a restart,\nnothing takes effect, the lines say why, and the "
                  "exit code is 1.\n\n") +
      kRights);
  command->callback([&globals, &action] { action = [&globals] { return Reload(globals); }; });
}

}  // namespace tenure::cli
