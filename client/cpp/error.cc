#include "client/cpp/error.h"

#include <absl/strings/cord.h>
#include <absl/types/optional.h>
#include <google/rpc/error_details.pb.h>
#include <system_error>

#include "tenure/errors.h"

namespace tenure::client {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kClientDomain[] = "tenure.client";

google::rpc::ErrorInfo ErrorInfoOf(const absl::Status& status) {
  google::rpc::ErrorInfo info;
  const absl::optional<absl::Cord> payload = status.GetPayload(kErrorInfoUrl);
  if (!payload || !info.ParseFromString(std::string(*payload))) info.Clear();
  return info;
}

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string_view reason, std::string_view message,
                       const std::map<std::string, std::string>& values) {
  google::rpc::ErrorInfo info;
  info.set_domain(kClientDomain);
  info.set_reason(std::string(reason));
  for (const auto& [name, value] : values) (*info.mutable_metadata())[name] = value;
  absl::Status status(code, absl::string_view(message.data(), message.size()));
  status.SetPayload(kErrorInfoUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

absl::Status ForkedError() {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, kForked,
      "this client belongs to the process that this one was forked from; connect anew");
}

absl::Status ProtocolError(std::string_view message) {
  return MakeError(absl::StatusCode::kInternal, kProtocol, message);
}

absl::Status SystemError(std::string_view what, int error) {
  return absl::UnknownError(std::string(what) + ": " +
                            std::error_code(error, std::generic_category()).message());
}

std::string ErrorReason(const absl::Status& status) { return ErrorInfoOf(status).reason(); }

std::map<std::string, std::string> ErrorValues(const absl::Status& status) {
  const google::rpc::ErrorInfo info = ErrorInfoOf(status);
  return {info.metadata().begin(), info.metadata().end()};
}

bool IsUnreachable(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  return reason == kDaemonUnreachable || reason == kDaemonGone ||
         (status.code() == absl::StatusCode::kUnavailable && reason.empty());
}

}  // namespace tenure::client
