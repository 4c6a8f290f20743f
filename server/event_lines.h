#pragma once

#include <span>

#include "core/store/event_log.h"

namespace tenure {

// Writes a line to the log for each event that nobody asked for: a device or lease that was lost,
// memory taken back. The others only at level debug: the calls behind them have lines of their own.
void LogEvents(std::span<const Event> events);

}  // namespace tenure
