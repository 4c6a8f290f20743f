#include "client/cpp/rpc_status.h"

#include <absl/strings/cord.h>
#include <google/rpc/status.pb.h>
#include <string>

#include "tenure/errors.h"

namespace tenure::client {

absl::Status FromRpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // The two sets of codes are one.
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& detail : details.details()) {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

bool EndedWithoutReply(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnavailable:
      // What the daemon itself refuses has a reason.
      return ErrorReason(status).empty();
    default:
      return false;
  }
}

bool MeantAnotherDaemon(const absl::Status& status) {
  return !status.ok() && ErrorReason(status) == "STALE_INCARNATION";
}

}  // namespace tenure::client
