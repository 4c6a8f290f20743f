#include "client/cpp/message_json.h"

#include <google/protobuf/util/json_util.h>

namespace tenure::client {

absl::StatusOr<std::string> MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) {
    return absl::InternalError("what the daemon answered cannot be put as JSON");
  }
  return json;
}

}  // namespace tenure::client
