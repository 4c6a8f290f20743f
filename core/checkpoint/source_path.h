#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/checkpoint.h"

namespace tenure {

// Where a source lies: an absolute path and the canonical root that what it leads to must stay
// under.
struct SourcePath {
  std::string path;
  std::string root;
};

// Reads `ROOT/relative` or an absolute path, by its text alone. An absolute path belongs to the
// deepest root that it lies under. INVALID_REQUEST for an empty source or a zero byte in it;
// PATH_OUTSIDE_ROOTS for an unknown root, a path under none and any "..", which would tell a client
// what exists elsewhere.
StatusOr<SourcePath> ResolveSource(const std::vector<ModelRoot>& roots, std::string_view source);

}  // namespace tenure
