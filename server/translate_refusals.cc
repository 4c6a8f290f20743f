#include "core/base/check.h"
#include "server/printable.h"
#include "server/translate.h"

namespace tenure {
namespace {

v1::FitVerdict ToProto(FitVerdict verdict) {
  switch (verdict) {
    case FitVerdict::kNow:
      return v1::FIT_VERDICT_NOW;
    case FitVerdict::kAfterReclaim:
      return v1::FIT_VERDICT_AFTER_RECLAIM;
    case FitVerdict::kWhenReleased:
      return v1::FIT_VERDICT_WHEN_RELEASED;
    case FitVerdict::kNever:
      return v1::FIT_VERDICT_NEVER;
    case FitVerdict::kDeviceLost:
      return v1::FIT_VERDICT_DEVICE_LOST;
    case FitVerdict::kCordoned:
      return v1::FIT_VERDICT_CORDONED;
  }
  TENURE_CHECK(false);
}

}  // namespace

v1::Refusal ToProto(const Refusal& refusal, Instant now) {
  v1::Refusal proto;
  proto.set_refusal_id(refusal.id.value());
  *proto.mutable_age() = ToProto(now - refusal.at);
  proto.set_method(refusal.method);
  proto.set_session_id(refusal.session.value());
  proto.set_program(refusal.program);
  proto.set_instance(refusal.instance);
  proto.set_reason(refusal.reason);
  proto.set_message(refusal.message);
  proto.mutable_values()->insert(refusal.values.begin(), refusal.values.end());
  return proto;
}

v1::DeviceFit ToProto(const DeviceFit& fit) {
  v1::DeviceFit proto;
  proto.set_device(fit.device);
  proto.set_verdict(ToProto(fit.verdict));
  proto.set_needed_bytes(fit.needed.count());
  proto.set_capacity_bytes(fit.capacity.count());
  proto.set_free_bytes(fit.free.count());
  proto.set_largest_now_bytes(fit.largest_now.count());
  proto.set_largest_bytes(fit.largest.count());
  proto.set_explanation(Printable(fit.explanation));
  return proto;
}

}  // namespace tenure
