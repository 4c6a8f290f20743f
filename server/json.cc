#include "server/json.h"

#include <google/protobuf/util/json_util.h>

#include "core/base/check.h"

namespace tenure {

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(message, &json, options);
  TENURE_CHECK(printed.ok());
  return json;
}

}  // namespace tenure
