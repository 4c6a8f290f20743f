#pragma once

#include <absl/status/statusor.h>
#include <string>

namespace tenure::cli {

// All of a file, or of standard input if `path` is "-".
absl::StatusOr<std::string> ReadFile(const std::string& path);

// In place of what was there.
absl::Status WriteFile(const std::string& path, const std::string& bytes);

}  // namespace tenure::cli
