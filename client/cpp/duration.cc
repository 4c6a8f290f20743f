#include "client/cpp/duration.h"

#include <algorithm>
#include <cstdint>

namespace tenure::client {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kMostSeconds = INT64_MAX / kNanosPerSecond - 1;

}  // namespace

std::chrono::nanoseconds FromProto(const google::protobuf::Duration& duration) {
  const int64_t seconds = std::clamp<int64_t>(duration.seconds(), -kMostSeconds, kMostSeconds);
  return std::chrono::nanoseconds(seconds * kNanosPerSecond + duration.nanos());
}

void ToProto(std::chrono::nanoseconds duration, google::protobuf::Duration* proto) {
  proto->set_seconds(duration.count() / kNanosPerSecond);
  proto->set_nanos(static_cast<int32_t>(duration.count() % kNanosPerSecond));
}

}  // namespace tenure::client
