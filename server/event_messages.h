#pragma once

#include <cstdint>
#include <google/protobuf/repeated_ptr_field.h>
#include <tenure/v1/event.pb.h>

#include "core/base/clock.h"
#include "core/store/event_log.h"
#include "server/session_registry.h"

namespace tenure {

// The first `most` events after the one of this number, with who their sessions are as far as those
// are remembered.
google::protobuf::RepeatedPtrField<v1::Event> EventMessages(const EventLog& log,
                                                            const SessionRegistry& sessions,
                                                            const Clock& clock, uint64_t after,
                                                            size_t most);

}  // namespace tenure
