#include "client/cpp/translate_events.h"

#include "client/cpp/duration.h"
#include "client/cpp/translate.h"

namespace tenure::client {
namespace {

std::string NameOf(v1::EventKind kind) {
  const std::string& name = v1::EventKind_Name(kind);
  return name.empty() ? std::to_string(kind) : name.substr(std::string("EVENT_KIND_").size());
}

Event EventOf(const v1::Event& event) {
  Event value{
      .sequence = event.sequence(),
      .time = std::chrono::system_clock::time_point(std::chrono::seconds(event.time().seconds()) +
                                                    std::chrono::nanoseconds(event.time().nanos())),
      .kind = NameOf(event.kind()),
      .device = event.device(),
      .session_id = event.session_id(),
      .program = event.program(),
      .instance = event.instance(),
      .subject = event.subject(),
      .bytes = event.bytes(),
      .took = FromProto(event.took()),
      .detail = event.detail(),
      .ledger = {}};
  if (event.has_ledger()) value.ledger = ToValue(event.ledger());
  return value;
}

}  // namespace

v1::ListEventsRequest ToMessage(const EventRequest& request) {
  v1::ListEventsRequest message;
  message.set_after(request.after);
  if (request.wait > std::chrono::nanoseconds::zero()) {
    ToProto(request.wait, message.mutable_wait());
  }
  message.set_limit(request.limit);
  return message;
}

EventList ToValue(const v1::ListEventsResponse& response) {
  EventList list{.events = {}, .last = response.last()};
  for (const v1::Event& event : response.events()) list.events.push_back(EventOf(event));
  return list;
}

}  // namespace tenure::client
