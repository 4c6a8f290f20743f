#include <google/protobuf/util/time_util.h>

#include "core/base/check.h"
#include "server/printable.h"
#include "server/translate.h"

namespace tenure {

v1::Event ToProto(const Event& event, std::chrono::system_clock::time_point time) {
  v1::Event proto;
  proto.set_sequence(event.sequence);
  *proto.mutable_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  v1::EventKind kind = v1::EVENT_KIND_UNSPECIFIED;
  TENURE_CHECK(v1::EventKind_Parse("EVENT_KIND_" + std::string(EventKindName(event.kind)), &kind));
  proto.set_kind(kind);
  proto.set_device(event.device);
  proto.set_session_id(event.session.value());
  proto.set_subject(Printable(event.subject));
  proto.set_bytes(event.bytes.count());
  if (event.took != Duration::zero()) *proto.mutable_took() = ToProto(event.took);
  proto.set_detail(Printable(event.detail));
  if (!event.arena.empty()) *proto.mutable_ledger() = ToProto(event.arena, event.ledger);
  return proto;
}

}  // namespace tenure
