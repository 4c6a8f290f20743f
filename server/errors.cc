#include "server/errors.h"

#include <array>
#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/printable.h"

namespace tenure {
namespace {

// The message travels twice: as the status's own and in the details.
constexpr size_t kMostMessage = 1536;
constexpr size_t kMostValue = 512;
constexpr size_t kMostValues = 2048;

constexpr std::array<std::pair<absl::StatusCode, grpc::StatusCode>, 17> kCodes = {{
    {absl::StatusCode::kOk, grpc::StatusCode::OK},
    {absl::StatusCode::kCancelled, grpc::StatusCode::CANCELLED},
    {absl::StatusCode::kUnknown, grpc::StatusCode::UNKNOWN},
    {absl::StatusCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
    {absl::StatusCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED},
    {absl::StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND},
    {absl::StatusCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
    {absl::StatusCode::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED},
    {absl::StatusCode::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED},
    {absl::StatusCode::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION},
    {absl::StatusCode::kAborted, grpc::StatusCode::ABORTED},
    {absl::StatusCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE},
    {absl::StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED},
    {absl::StatusCode::kInternal, grpc::StatusCode::INTERNAL},
    {absl::StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE},
    {absl::StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS},
    {absl::StatusCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED},
}};

grpc::StatusCode CodeOf(const Status& status) {
  for (const auto& [from, to] : kCodes) {
    if (from == status.code()) return to;
  }
  return grpc::StatusCode::UNKNOWN;
}

// "; refusal 17", or nothing.
std::string Ending(const std::optional<ErrorDetail>& detail) {
  for (const auto& [name, value] : detail.value_or(ErrorDetail{}).values) {
    if (name == kRefusalIdValue) return "; refusal " + value;
  }
  return "";
}

}  // namespace

grpc::Status ToGrpcStatus(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::optional<ErrorDetail> detail = DetailOf(status);
  const std::string ending = Ending(detail);
  const std::string message = Shorten(Printable({status.message().data(), status.message().size()}),
                                      kMostMessage - ending.size()) +
                              ending;
  if (!detail.has_value()) return {CodeOf(status), message};

  google::rpc::ErrorInfo info;
  info.set_domain("tenure");
  info.set_reason(detail->reason);
  size_t room = kMostValues;
  for (const auto& [name, text] : detail->values) {
    std::string value = Shorten(Printable(text), kMostValue);
    if (name.size() + value.size() > room) continue;
    room -= name.size() + value.size();
    (*info.mutable_metadata())[name] = std::move(value);
  }
  google::rpc::Status details;
  details.set_code(static_cast<int>(CodeOf(status)));
  details.set_message(message);
  details.add_details()->PackFrom(info);
  return {CodeOf(status), message, details.SerializeAsString()};
}

}  // namespace tenure
