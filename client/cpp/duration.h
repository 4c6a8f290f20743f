#pragma once

#include <chrono>
#include <google/protobuf/duration.pb.h>

namespace tenure::client {

// Both cut what does not fit: nanoseconds in 64 bits reach 292 years.
std::chrono::nanoseconds FromProto(const google::protobuf::Duration& duration);
void ToProto(std::chrono::nanoseconds duration, google::protobuf::Duration* proto);

}  // namespace tenure::client
