#pragma once

#include <chrono>
#include <string>

#include "client/cli/memory_map.h"
#include "client/cli/terminal.h"

namespace tenure::cli {

struct TopOptions {
  ScreenSize size;
  bool color = false;
  // True: as many lines as there is to say. False: as many as the screen has.
  bool all = false;
};

// What `tenurectl top` shows, as lines no longer than the screen is wide: devices and arenas as
// bars, models and sessions by bytes. `before` is the map of the refresh before, of which the rates
// are told; null if there was none.
std::string TopScreen(const MemoryMap& now, const MemoryMap* before, const TopOptions& options);

}  // namespace tenure::cli
