#pragma once

// The commands of tenurectl. Each adds itself to the command line, and says what to do if it is
// chosen.

#include <absl/status/statusor.h>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "tenure/client.h"

namespace CLI {
class App;
}  // namespace CLI

namespace tenure::cli {

// What scripts can rely on.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,       // refused, or failed half way; what was asked about does not fit now
  kUsage = 2,        // the command line makes no sense
  kUnreachable = 3,  // no daemon answers in the directory
  kNotFound = 4,     // no such model, file, device or refusal
  kDeadline = 5,     // not done in time
  kTooHigh = 6,      // a plan that is higher than its capacity
};

// The options before the command.
struct Globals {
  std::string directory;  // empty: $TENURE_DIR, or else /run/tenure
  bool json = false;
  std::optional<std::chrono::nanoseconds> timeout;
};

// Answers an ExitCode.
using Action = std::function<int()>;

// `globals` and `action` outlive parsing.
void AddLoad(CLI::App& app, const Globals& globals, Action& action);
void AddUnload(CLI::App& app, const Globals& globals, Action& action);
void AddModels(CLI::App& app, const Globals& globals, Action& action);
void AddModel(CLI::App& app, const Globals& globals, Action& action);
void AddWatch(CLI::App& app, const Globals& globals, Action& action);
void AddArenas(CLI::App& app, const Globals& globals, Action& action);
void AddSessions(CLI::App& app, const Globals& globals, Action& action);
void AddFit(CLI::App& app, const Globals& globals, Action& action);
void AddExplain(CLI::App& app, const Globals& globals, Action& action);
void AddDump(CLI::App& app, const Globals& globals, Action& action);
void AddEvents(CLI::App& app, const Globals& globals, Action& action);
void AddMap(CLI::App& app, const Globals& globals, Action& action);
void AddTop(CLI::App& app, const Globals& globals, Action& action);
// Adds `cordon` and `uncordon`.
void AddCordon(CLI::App& app, const Globals& globals, Action& action);
void AddDrain(CLI::App& app, const Globals& globals, Action& action);
void AddTrim(CLI::App& app, const Globals& globals, Action& action);
void AddReload(CLI::App& app, const Globals& globals, Action& action);
void AddSummary(CLI::App& app, const Globals& globals, Action& action);
void AddLeaks(CLI::App& app, const Globals& globals, Action& action);
void AddHealth(CLI::App& app, const Globals& globals, Action& action);
void AddPlan(CLI::App& app, const Globals& globals, Action& action);
void AddVersion(CLI::App& app, const Globals& globals, Action& action);

// A session with the daemon that the options name.
absl::StatusOr<client::Client> Connect(const Globals& globals);

}  // namespace tenure::cli
