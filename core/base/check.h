#pragma once

// TENURE_CHECK(condition): ends the process with file, line and condition if a precondition
// (`REQUIRES:`) or an invariant of ours does not hold. Never used on what came from outside.

namespace tenure::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace tenure::internal

#define TENURE_CHECK(condition)                        \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::tenure::internal::CheckFailed(__FILE__, __LINE__, #condition))
