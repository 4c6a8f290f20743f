#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

// How this folder words a refusal. Errors travel in gRPC trailers, which hold 8 KiB, so what comes
// out of a file is shortened.

namespace tenure {

// A name out of a file, fit for an error message: control characters become '?', and what exceeds
// 128 bytes is cut off between two UTF-8 characters and replaced by "...".
std::string ShownName(std::string_view name);

// "a, b, c", and " and 7 more" where there are more than 24.
std::string ShownNames(const std::vector<std::string>& names);

// INVALID_CHECKPOINT: `what`, then the tensor or path, which is among the values as well.
Status RefuseTensor(std::string_view what, std::string_view tensor);
Status RefuseFile(std::string_view what, const std::string& path);

// The refusal of something in a file: `refusal`, with the path at the end of its message and among
// its values. REQUIRES: INVALID_CHECKPOINT or UNSUPPORTED_DTYPE.
Status InFile(const Status& refusal, const std::string& path);

}  // namespace tenure
