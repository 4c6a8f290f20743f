#pragma once

#include <absl/status/status.h>
#include <string>

#include "client/cli/command.h"

namespace tenure::cli {

// Tells on stderr what failed, why, and what would help; as an object with --json. Answers the
// ExitCode.
int Fail(const Globals& globals, const absl::Status& status);

ExitCode ExitCodeOf(const absl::Status& status);

// What a user can do about an error with this reason; empty if nothing is known.
std::string HintFor(const std::string& reason);

}  // namespace tenure::cli
