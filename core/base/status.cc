#include "core/base/status.h"

#include <absl/strings/cord.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <algorithm>

#include "core/base/check.h"

namespace tenure {
namespace {

constexpr char kPayloadUrl[] = "tenure.v1/ErrorDetail";

// The payload is lines: the reason, then one "name=value" for each value. Values are kept on one
// line so that this reads back.
std::string OneLine(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  return line;
}

absl::StatusCode CodeOf(Reason reason) {
  switch (reason) {
    case Reason::kInvalidRequest:
    case Reason::kInvalidCheckpoint:
    case Reason::kInvalidPlanInput:
    case Reason::kPathOutsideRoots:
    case Reason::kRequestIdReused:
      return absl::StatusCode::kInvalidArgument;
    case Reason::kUnsupportedDtype:
      return absl::StatusCode::kUnimplemented;
    case Reason::kFileNotFound:
    case Reason::kModelNotFound:
    case Reason::kDeviceNotFound:
    case Reason::kLeaseNotFound:
    case Reason::kRefusalNotFound:
      return absl::StatusCode::kNotFound;
    case Reason::kFileUnreadable:
      return absl::StatusCode::kDataLoss;
    case Reason::kFileChanged:
      return absl::StatusCode::kAborted;
    case Reason::kCapacity:
    case Reason::kHeldByLeases:
    case Reason::kFragmented:
    case Reason::kReclaimPending:
    case Reason::kBackend:
    case Reason::kCordoned:
    case Reason::kLimit:
    case Reason::kPlanInfeasible:
      return absl::StatusCode::kResourceExhausted;
    case Reason::kModelDraining:
    case Reason::kModelUnavailable:
    case Reason::kLeaseExpired:
    case Reason::kStaleIncarnation:
    case Reason::kPlanTooSmall:
    case Reason::kPlanOverlap:
    case Reason::kRestartNeeded:
      return absl::StatusCode::kFailedPrecondition;
    case Reason::kSessionUnknown:
      return absl::StatusCode::kUnauthenticated;
    case Reason::kPermissionDenied:
      return absl::StatusCode::kPermissionDenied;
    case Reason::kDeadline:
      return absl::StatusCode::kDeadlineExceeded;
    case Reason::kCancelled:
      return absl::StatusCode::kCancelled;
    case Reason::kDeviceLost:
    case Reason::kShuttingDown:
      return absl::StatusCode::kUnavailable;
    case Reason::kDriver:
      return absl::StatusCode::kInternal;
  }
  TENURE_CHECK(false);
}

}  // namespace

std::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kInvalidRequest:
      return "INVALID_REQUEST";
    case Reason::kInvalidCheckpoint:
      return "INVALID_CHECKPOINT";
    case Reason::kInvalidPlanInput:
      return "INVALID_PLAN_INPUT";
    case Reason::kUnsupportedDtype:
      return "UNSUPPORTED_DTYPE";
    case Reason::kPathOutsideRoots:
      return "PATH_OUTSIDE_ROOTS";
    case Reason::kFileNotFound:
      return "FILE_NOT_FOUND";
    case Reason::kModelNotFound:
      return "MODEL_NOT_FOUND";
    case Reason::kDeviceNotFound:
      return "DEVICE_NOT_FOUND";
    case Reason::kLeaseNotFound:
      return "LEASE_NOT_FOUND";
    case Reason::kRefusalNotFound:
      return "REFUSAL_NOT_FOUND";
    case Reason::kRequestIdReused:
      return "REQUEST_ID_REUSED";
    case Reason::kPlanTooSmall:
      return "PLAN_TOO_SMALL";
    case Reason::kPlanOverlap:
      return "PLAN_OVERLAP";
    case Reason::kPlanInfeasible:
      return "PLAN_INFEASIBLE";
    case Reason::kFileUnreadable:
      return "FILE_UNREADABLE";
    case Reason::kFileChanged:
      return "FILE_CHANGED";
    case Reason::kCapacity:
      return "CAPACITY";
    case Reason::kHeldByLeases:
      return "HELD_BY_LEASES";
    case Reason::kFragmented:
      return "FRAGMENTED";
    case Reason::kReclaimPending:
      return "RECLAIM_PENDING";
    case Reason::kBackend:
      return "BACKEND";
    case Reason::kCordoned:
      return "CORDONED";
    case Reason::kDeviceLost:
      return "DEVICE_LOST";
    case Reason::kDriver:
      return "DRIVER";
    case Reason::kModelDraining:
      return "MODEL_DRAINING";
    case Reason::kModelUnavailable:
      return "MODEL_UNAVAILABLE";
    case Reason::kLeaseExpired:
      return "LEASE_EXPIRED";
    case Reason::kSessionUnknown:
      return "SESSION_UNKNOWN";
    case Reason::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Reason::kStaleIncarnation:
      return "STALE_INCARNATION";
    case Reason::kDeadline:
      return "DEADLINE";
    case Reason::kCancelled:
      return "CANCELLED";
    case Reason::kLimit:
      return "LIMIT";
    case Reason::kShuttingDown:
      return "SHUTTING_DOWN";
    case Reason::kRestartNeeded:
      return "RESTART_NEEDED";
  }
  TENURE_CHECK(false);
}

Status Error(Reason reason, std::string_view message, const ErrorValues& values) {
  Status status(CodeOf(reason), absl::string_view(message.data(), message.size()));
  std::string payload(ReasonName(reason));
  for (const auto& [name, value] : values) {
    absl::StrAppend(&payload, "\n", name, "=", OneLine(value));
  }
  status.SetPayload(kPayloadUrl, absl::Cord(payload));
  return status;
}

Status WithNote(const Status& error, std::string_view note, std::string_view value) {
  Status noted(error.code(),
               absl::StrCat(error.message(), "; ", std::string(note), ": ", std::string(value)));
  error.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { noted.SetPayload(url, payload); });
  return noted;
}

Status WithValue(const Status& error, std::string_view name, std::string_view value) {
  Status extended = error;
  if (const absl::optional<absl::Cord> payload = error.GetPayload(kPayloadUrl)) {
    std::string text(*payload);
    text.insert(std::min(text.find('\n'), text.size()),
                absl::StrCat("\n", std::string(name), "=", OneLine(value)));
    extended.SetPayload(kPayloadUrl, absl::Cord(text));
  }
  return extended;
}

std::optional<ErrorDetail> DetailOf(const Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  ErrorDetail detail;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (detail.reason.empty()) {
      detail.reason = std::string(line);
      continue;
    }
    const std::pair<std::string, std::string> value = absl::StrSplit(line, absl::MaxSplits('=', 1));
    detail.values.push_back(value);
  }
  return detail;
}

bool HasReason(const Status& status, Reason reason) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  return detail.has_value() && detail->reason == ReasonName(reason);
}

}  // namespace tenure
