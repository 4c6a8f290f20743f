#pragma once

#include <absl/status/statusor.h>
#include <google/protobuf/message.h>
#include <string>

namespace tenure::client {

// As protobuf's JSON, with the names of the .proto files and every field there. INTERNAL if it
// cannot be put so.
absl::StatusOr<std::string> MessageJson(const google::protobuf::Message& message);

}  // namespace tenure::client
