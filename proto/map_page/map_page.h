#pragma once

#include <string>
#include <string_view>

namespace tenure {

// The memory map as one HTML page that loads nothing but the map itself. With a MemoryMap as JSON
// (see map.proto) it shows that and asks nobody; without, it asks its server for map.json again and
// again.
std::string MapPage(std::string_view snapshot_json);

// The Content-Security-Policy that is enough for it.
std::string MapPagePolicy();

}  // namespace tenure
