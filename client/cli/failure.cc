#include "client/cli/failure.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace tenure::cli {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kHints = {{
    {"DAEMON_UNREACHABLE",
     "is tenured running, and is --directory (or TENURE_DIR) the one it was given?"},
    {"DAEMON_GONE", "the daemon stopped or was restarted; run the command again"},
    {"CAPACITY",
     "unload what is idle (`tenurectl models`), or give weights more of the device in the daemon's "
     "configuration (`tenurectl arenas` shows what they have)"},
    {"HELD_BY_LEASES",
     "see who holds the room with `tenurectl models` and `tenurectl sessions`, and unload or "
     "stop some"},
    {"BACKEND", "the device gave less memory than configured; other programs may use it"},
    {"CORDONED", "name another device or none, or `tenurectl uncordon` the device"},
    {"PERMISSION_DENIED",
     "run this as root or as the daemon's user, or add your uid or gid to `admin` in its "
     "configuration"},
    {"RESTART_NEEDED", "nothing of the file took effect; take these changes back, or restart"},
    {"DEVICE_LOST",
     "the device serves nobody until the daemon is started again; `tenurectl arenas` says why"},
    {"DRIVER", "NVIDIA's driver refused what it should not; its log and the daemon's say more"},
    {"CUDA_UNAVAILABLE", "run this where the GPU's driver is, `tenured --check-device` tells"},
    {"PATH_OUTSIDE_ROOTS", "the path must lie under a model root; `tenurectl version` lists them"},
    {"FILE_NOT_FOUND", "paths are as the daemon sees them: ROOT/relative or absolute"},
    {"INVALID_CHECKPOINT",
     "the file is damaged or no safetensors file; `--validate-only` checks it again"},
    {"INVALID_PLAN_INPUT", "`tenurectl plan --help` tells what such a file looks like"},
    {"FILE_CHANGED", "write new weights to a new file and rename it into place"},
    {"MODEL_NOT_FOUND", "`tenurectl models` lists what is loaded"},
    {"REFUSAL_NOT_FOUND", "ids are those of this start of the daemon; its log may tell more"},
    {"MODEL_UNAVAILABLE", "the model is not online; `tenurectl model NAME` tells its state"},
    {"MODEL_DRAINING", "its last leases are still live; load it again to bring it back"},
    {"DEVICE_NOT_FOUND", "`tenurectl arenas` lists the devices"},
    {"SHUTTING_DOWN", "the daemon is stopping; try again when it is back"},
}};

}  // namespace

std::string HintFor(const std::string& reason) {
  const auto* const hint = std::find_if(kHints.begin(), kHints.end(),
                                        [&](const auto& each) { return each.first == reason; });
  return hint == kHints.end() ? std::string() : std::string(hint->second);
}

ExitCode ExitCodeOf(const absl::Status& status) {
  if (client::IsUnreachable(status)) return kUnreachable;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kOk;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kDeadlineExceeded:
      return kDeadline;
    default:
      return kFailed;
  }
}

int Fail(const Globals& globals, const absl::Status& status) {
  return Fail(globals, status, client::ErrorReason(status), client::ErrorValues(status));
}

int Fail(const Globals& globals, const absl::Status& status, const std::string& reason,
         std::map<std::string, std::string> values) {
  const std::string message(status.message());
  // The daemon knows best what would help.
  const auto told = values.find("hint");
  const std::string hint = told != values.end() ? told->second : HintFor(reason);
  const auto refusal = values.find("refusal_id");
  const std::string explain =
      refusal != values.end() ? "tenurectl explain " + refusal->second : std::string();
  if (globals.json) {
    const nlohmann::ordered_json error = {
        {"code", absl::StatusCodeToString(status.code())},
        {"reason", reason},
        {"message", message},
        {"values", values},
        {"hint", hint},
        {"explain", explain},
    };
    std::cerr << nlohmann::ordered_json{{"error", error}}.dump(
                     2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << '\n';
    return ExitCodeOf(status);
  }
  std::cerr << "tenurectl: " << message << '\n';
  if (!reason.empty()) std::cerr << "  reason: " << reason << '\n';
  values.erase("hint");
  for (const auto& [name, value] : values) std::cerr << "  " << name << ": " << value << '\n';
  if (!hint.empty()) std::cerr << "  hint: " << hint << '\n';
  if (!explain.empty()) std::cerr << "  more, and whether it would fit by now: " << explain << '\n';
  return ExitCodeOf(status);
}

}  // namespace tenure::cli
