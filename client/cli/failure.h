#pragma once

#include <absl/status/status.h>
#include <map>
#include <string>

#include "client/cli/command.h"

namespace tenure::cli {

// Tells on stderr what failed, why, and what would help; as an object with --json. Answers the
// ExitCode.
int Fail(const Globals& globals, const absl::Status& status);

// The same of what went wrong here, so that `status` has no reason and no values of its own.
int Fail(const Globals& globals, const absl::Status& status, const std::string& reason,
         std::map<std::string, std::string> values);

ExitCode ExitCodeOf(const absl::Status& status);

// What a user can do about an error with this reason; empty if nothing is known.
std::string HintFor(const std::string& reason);

}  // namespace tenure::cli
