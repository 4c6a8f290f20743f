#pragma once

#include <absl/status/status.h>
#include <map>
#include <string>
#include <string_view>

namespace tenure::client {

// The library's own reasons; errors.h says what they mean.
inline constexpr std::string_view kDaemonUnreachable = "DAEMON_UNREACHABLE";
inline constexpr std::string_view kDaemonGone = "DAEMON_GONE";
inline constexpr std::string_view kHeartbeatMissed = "HEARTBEAT_MISSED";
inline constexpr std::string_view kReleased = "RELEASED";
inline constexpr std::string_view kScopeReleased = "SCOPE_RELEASED";
inline constexpr std::string_view kSlotClosed = "SLOT_CLOSED";
inline constexpr std::string_view kNotPlanned = "NOT_PLANNED";
inline constexpr std::string_view kAcquired = "ACQUIRED";
inline constexpr std::string_view kNotAcquired = "NOT_ACQUIRED";
inline constexpr std::string_view kRecording = "RECORDING";
inline constexpr std::string_view kForked = "FORKED";
inline constexpr std::string_view kProtocol = "PROTOCOL";
inline constexpr std::string_view kUnsupportedBackend = "UNSUPPORTED_BACKEND";
inline constexpr std::string_view kCudaUnavailable = "CUDA_UNAVAILABLE";
inline constexpr std::string_view kCudaDeviceNotFound = "CUDA_DEVICE_NOT_FOUND";
inline constexpr std::string_view kCudaFailed = "CUDA_FAILED";

// The daemon's, for what the library refuses in its place.
inline constexpr std::string_view kInvalidRequest = "INVALID_REQUEST";
inline constexpr std::string_view kPlanTooSmall = "PLAN_TOO_SMALL";
inline constexpr std::string_view kPlanOverlap = "PLAN_OVERLAP";

// An error whose reason ErrorReason gives back.
absl::Status MakeError(absl::StatusCode code, std::string_view reason, std::string_view message,
                       const std::map<std::string, std::string>& values = {});

// FAILED_PRECONDITION, FORKED: this process is a child of the one that the client is of.
absl::Status ForkedError();

// INTERNAL, PROTOCOL: what the daemon said makes no sense.
absl::Status ProtocolError(std::string_view message);

// UNKNOWN code, with the text of `error` (an errno) after `what`.
absl::Status SystemError(std::string_view what, int error);

}  // namespace tenure::client

#define TENURE_CLIENT_RETURN_IF_ERROR(expression)                                                \
  do {                                                                                           \
    if (absl::Status tenure_status_ = (expression); !tenure_status_.ok()) return tenure_status_; \
  } while (false)

// Declares or assigns `target` from a StatusOr, or returns its error.
#define TENURE_CLIENT_ASSIGN_OR_RETURN(target, expression)                                \
  TENURE_CLIENT_ASSIGN_OR_RETURN_(TENURE_CLIENT_CONCAT_(tenure_value_, __LINE__), target, \
                                  expression)
#define TENURE_CLIENT_ASSIGN_OR_RETURN_(value, target, expression) \
  auto value = (expression);                                       \
  if (!value.ok()) return value.status();                          \
  target = *std::move(value)
#define TENURE_CLIENT_CONCAT_(a, b) TENURE_CLIENT_CONCAT_INNER_(a, b)
#define TENURE_CLIENT_CONCAT_INNER_(a, b) a##b
