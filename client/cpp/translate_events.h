#pragma once

#include <tenure/v1/admin.pb.h>

#include "tenure/event.h"

namespace tenure::client {

v1::ListEventsRequest ToMessage(const EventRequest& request);
EventList ToValue(const v1::ListEventsResponse& response);

}  // namespace tenure::client
