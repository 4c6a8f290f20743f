#pragma once

#include <google/protobuf/message.h>
#include <string>

namespace tenure {

// As protobuf's JSON, with the names of the .proto files and every field there.
std::string ToJson(const google::protobuf::Message& message);

}  // namespace tenure
