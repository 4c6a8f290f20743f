#pragma once

// Errors cross our interfaces as absl::Status. One made by `Error` carries a Reason out of a closed
// set and named values, which the server passes on as google.rpc.ErrorInfo.

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenure {

using absl::Status;
using absl::StatusOr;

// Why something was refused. The names are part of the API: they travel in ErrorInfo and label
// metrics.
enum class Reason {
  // What was asked for makes no sense, or names nothing.
  kInvalidRequest,
  kInvalidCheckpoint,
  kInvalidPlanInput,
  kUnsupportedDtype,
  kPathOutsideRoots,
  kFileNotFound,
  kModelNotFound,
  kDeviceNotFound,
  kLeaseNotFound,
  kRefusalNotFound,
  kRequestIdReused,
  // A plan does not hold for what it is used with: a buffer is larger, or lives longer or
  // elsewhere.
  // No plan fits what there is.
  kPlanTooSmall,
  kPlanOverlap,
  kPlanInfeasible,
  // The file layer failed, or the file changed while it was read.
  kFileUnreadable,
  kFileChanged,
  // No room: too little capacity for this beside what is online; others hold leases on the room, or
  // have not answered for it.
  kCapacity,
  kHeldByLeases,
  // Enough bytes, but not side by side; bytes that are on their way back.
  kFragmented,
  kReclaimPending,
  // The backend has less than promised.
  kBackend,
  // The Device takes nothing new, on an operator's word.
  kCordoned,
  // The Device is gone, or its driver does not answer; the driver refused what should be right.
  kDeviceLost,
  kDriver,
  // Wrong moment or wrong caller.
  kModelDraining,
  kModelUnavailable,
  kLeaseExpired,
  kSessionUnknown,
  kPermissionDenied,
  kStaleIncarnation,
  kDeadline,
  kCancelled,
  kLimit,
  kShuttingDown,
  // A change of the configuration that the running daemon cannot make.
  kRestartNeeded,
};

inline constexpr Reason kAllReasons[] = {
    Reason::kInvalidRequest,   Reason::kInvalidCheckpoint, Reason::kInvalidPlanInput,
    Reason::kUnsupportedDtype, Reason::kPathOutsideRoots,  Reason::kFileNotFound,
    Reason::kModelNotFound,    Reason::kDeviceNotFound,    Reason::kLeaseNotFound,
    Reason::kRefusalNotFound,  Reason::kRequestIdReused,   Reason::kPlanTooSmall,
    Reason::kPlanOverlap,      Reason::kPlanInfeasible,    Reason::kFileUnreadable,
    Reason::kFileChanged,      Reason::kCapacity,          Reason::kHeldByLeases,
    Reason::kFragmented,       Reason::kReclaimPending,    Reason::kBackend,
    Reason::kCordoned,         Reason::kDeviceLost,        Reason::kDriver,
    Reason::kModelDraining,    Reason::kModelUnavailable,  Reason::kLeaseExpired,
    Reason::kSessionUnknown,   Reason::kPermissionDenied,  Reason::kStaleIncarnation,
    Reason::kDeadline,         Reason::kCancelled,         Reason::kLimit,
    Reason::kShuttingDown,     Reason::kRestartNeeded,
};

// "CAPACITY", "PATH_OUTSIDE_ROOTS", ...
std::string_view ReasonName(Reason reason);

// Named values of an error: {"free_bytes", "1048576"}, ...
using ErrorValues = std::vector<std::pair<std::string, std::string>>;

// An error whose code follows from `reason`. In `message` the runtime values come last.
Status Error(Reason reason, std::string_view message, const ErrorValues& values = {});

// `error` with "; note: value" at the end of its message, and everything else as it is.
Status WithNote(const Status& error, std::string_view note, std::string_view value);

// `error` with one more named value, before the others, and everything else as it is. An error that
// `Error` did not make is left alone.
Status WithValue(const Status& error, std::string_view name, std::string_view value);

struct ErrorDetail {
  std::string reason;
  ErrorValues values;
};

// What `Error` put into `status`; nullopt for any other status.
std::optional<ErrorDetail> DetailOf(const Status& status);

// True if `status` was made by `Error` with `reason`.
bool HasReason(const Status& status, Reason reason);

}  // namespace tenure

#define TENURE_RETURN_IF_ERROR(expression)                                                         \
  do {                                                                                             \
    if (::absl::Status tenure_status_ = (expression); !tenure_status_.ok()) return tenure_status_; \
  } while (false)

#define TENURE_CONCAT_INNER_(a, b) a##b
#define TENURE_CONCAT_(a, b) TENURE_CONCAT_INNER_(a, b)

// TENURE_ASSIGN_OR_RETURN(auto x, F()): x gets the value, or the enclosing function returns the
// error.
#define TENURE_ASSIGN_OR_RETURN(declaration, expression) \
  TENURE_ASSIGN_OR_RETURN_(TENURE_CONCAT_(tenure_statusor_, __LINE__), declaration, expression)
#define TENURE_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) return result.status();                       \
  declaration = *std::move(result)
