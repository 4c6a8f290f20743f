#include "client/cpp/map_json.h"

#include <google/protobuf/util/json_util.h>
#include <tenure/v1/map.pb.h>

namespace tenure::client {

absl::StatusOr<std::string> MapJson(const std::string& serialized) {
  v1::MemoryMap map;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  if (!map.ParseFromString(serialized) ||
      !google::protobuf::util::MessageToJsonString(map, &json, options).ok()) {
    return absl::InternalError("the daemon's memory map cannot be read");
  }
  return json;
}

}  // namespace tenure::client
