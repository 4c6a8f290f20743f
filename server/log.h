#pragma once

#include "server/config.h"

namespace tenure {

// Sets up the process's one log: a line on stderr for each thing that matters, as text or as a JSON
// object
// {"time","level","message"}. Messages may quote what clients sent: control characters are escaped,
// so that no message looks like two lines. REQUIRES: `log.level` is a level of spdlog.
void StartLog(const LogConfig& log);

// Gives it another level and format, at any time. REQUIRES: as StartLog, which was called.
void ChangeLog(const LogConfig& log);

}  // namespace tenure
