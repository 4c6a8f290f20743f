#pragma once

#include <functional>
#include <string>

#include "core/store/store.h"
#include "server/http_server.h"
#include "server/memory_map.h"
#include "server/metrics.h"
#include "server/wanted_models.h"

namespace tenure {

// What the pages tell of. All references outlive them.
struct HttpSources {
  const Store& store;
  const WantedModels& wanted;
  const Metrics& metrics;
  const MapMaker& maps;
  std::string boot_id;
  std::function<bool()> serving;  // false before the sockets are there, and once it stops
};

// All that the daemon serves:
//
//   /          the live memory map, a page that loads nothing but /map.json
//   /healthz   200 as long as the process answers
//   /map.json  a MemoryMap
//   /metrics   for Prometheus
//   /readyz    200 if it serves, nothing wanted is pending and a Device is left; else 503; why, as
//              JSON
//   /version   JSON
HttpPages MakeHttpPages(HttpSources sources);

}  // namespace tenure
