#include "server/event_messages.h"

#include <chrono>
#include <google/protobuf/util/time_util.h>
#include <map>
#include <string>

#include "core/base/check.h"
#include "server/printable.h"
#include "server/translate.h"

namespace tenure {
namespace {

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
  if (event.took != Duration::zero()) *proto.mutable_took() = tenure::ToProto(event.took);
  proto.set_detail(Printable(event.detail));
  if (!event.arena.empty()) *proto.mutable_ledger() = tenure::ToProto(event.arena, event.ledger);
  return proto;
}

}  // namespace

google::protobuf::RepeatedPtrField<v1::Event> EventMessages(const EventLog& log,
                                                            const SessionRegistry& sessions,
                                                            const Clock& clock, uint64_t after,
                                                            size_t most) {
  std::map<SessionId, SessionIdentity> identities;
  for (const SessionView& session : sessions.Sessions()) {
    identities.emplace(session.id, session.identity);
  }
  const auto wall = std::chrono::system_clock::now();
  const Instant now = clock.Now();
  google::protobuf::RepeatedPtrField<v1::Event> messages;
  for (const Event& event : log.After(after, most)) {
    v1::Event& message = *messages.Add();
    message = ToProto(event, wall - (now - event.at));
    const auto identity = identities.find(event.session);
    if (identity == identities.end()) continue;
    message.set_program(identity->second.program);
    message.set_instance(identity->second.instance);
  }
  return messages;
}

}  // namespace tenure
