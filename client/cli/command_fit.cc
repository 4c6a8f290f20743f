#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/fit_table.h"
#include "client/cli/json.h"
#include "client/cli/options.h"

namespace tenure::cli {
namespace {

int Run(const Globals& globals, const client::FitRequest& request) {
  const absl::StatusOr<client::Client> client = Connect(globals);
  if (!client.ok()) return Fail(globals, client.status());
  const absl::StatusOr<std::vector<client::DeviceFit>> fits =
      client->Fit(request, {.timeout = globals.timeout});
  if (!fits.ok()) return Fail(globals, fits.status());
  if (globals.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const client::DeviceFit& fit : *fits) list.push_back(ToJson(fit));
    PrintJson({{"devices", list}});
  } else {
    PrintFits(std::cout, *fits);
  }
  const bool now = std::any_of(fits->begin(), fits->end(), [](const client::DeviceFit& fit) {
    return fit.verdict == client::FitVerdict::kNow;
  });
  return now ? kOk : kFailed;
}

}  // namespace

void AddFit(CLI::App& app, const Globals& globals, Action& action) {
  struct Options {
    client::FitRequest request;
    std::string need;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "fit", "Tell whether a model or a buffer would find room; ends with 0 if it does now");
  command
      ->add_option("need", options->need,
                   "The path of a model, as for `load`; or a buffer's size, such as 64MiB")
      ->required()
      ->check([](const std::string& need) {
        // Every path has a slash: ROOT/relative, or absolute.
        return need.find('/') != std::string::npos || ParseSize(need)
                   ? std::string()
                   : "neither a path with its root nor a size such as 64MiB: " + need;
      });
  command->add_option("--device", options->request.device,
                      "Only this device, such as host:0 [all of them]");
  const std::map<std::string, client::BufferKind> kinds = {
      {"activation", client::BufferKind::kActivation},
      {"workspace", client::BufferKind::kWorkspace},
      {"io", client::BufferKind::kIo}};
  CLI::Option* const kind =
      command
          ->add_option("--kind", options->request.kind,
                       "Of a buffer: activation, workspace or io [activation]")
          ->transform(CLI::CheckedTransformer(kinds));
  command->callback([&globals, &action, options, kind] {
    if (options->need.find('/') == std::string::npos) {
      options->request.bytes = *ParseSize(options->need);
    } else if (kind->count() > 0) {
      throw CLI::ValidationError("--kind", "a model has none, only a buffer has");
    } else {
      options->request.path = options->need;
    }
    action = [&globals, options] { return Run(globals, options->request); };
  });
}

}  // namespace tenure::cli
