#include "client/cpp/translate_refusals.h"

#include "client/cpp/duration.h"
#include "client/cpp/translate.h"

namespace tenure::client {
namespace {

FitVerdict ToValue(v1::FitVerdict verdict) {
  switch (verdict) {
    case v1::FIT_VERDICT_NOW:
      return FitVerdict::kNow;
    case v1::FIT_VERDICT_AFTER_RECLAIM:
      return FitVerdict::kAfterReclaim;
    case v1::FIT_VERDICT_WHEN_RELEASED:
      return FitVerdict::kWhenReleased;
    case v1::FIT_VERDICT_NEVER:
      return FitVerdict::kNever;
    case v1::FIT_VERDICT_DEVICE_LOST:
      return FitVerdict::kDeviceLost;
    case v1::FIT_VERDICT_CORDONED:
      return FitVerdict::kCordoned;
    default:
      return FitVerdict::kUnspecified;
  }
}

}  // namespace

DeviceFit ToValue(const v1::DeviceFit& fit) {
  return {.device = fit.device(),
          .verdict = ToValue(fit.verdict()),
          .needed_bytes = fit.needed_bytes(),
          .capacity_bytes = fit.capacity_bytes(),
          .free_bytes = fit.free_bytes(),
          .largest_now_bytes = fit.largest_now_bytes(),
          .largest_bytes = fit.largest_bytes(),
          .explanation = fit.explanation()};
}

Refusal ToValue(const v1::ExplainRefusalResponse& response) {
  const v1::Refusal& refusal = response.refusal();
  Refusal value{.refusal_id = refusal.refusal_id(),
                .age = FromProto(refusal.age()),
                .method = refusal.method(),
                .session_id = refusal.session_id(),
                .program = refusal.program(),
                .instance = refusal.instance(),
                .reason = refusal.reason(),
                .message = refusal.message(),
                .values = {refusal.values().begin(), refusal.values().end()},
                .now = {}};
  if (response.has_now()) value.now = ToValue(response.now());
  return value;
}

v1::FitRequest ToMessage(const FitRequest& request) {
  v1::FitRequest message;
  message.set_device(request.device);
  if (!request.path.empty()) {
    message.set_path(request.path);
    return message;
  }
  v1::BufferSpec& buffer = *message.mutable_buffer();
  buffer.set_size(request.bytes);
  buffer.set_alignment(request.alignment);
  buffer.set_kind(ToMessage(request.kind));
  return message;
}

}  // namespace tenure::client
