#pragma once

// What happened to memory and to who holds it. Plain values; sizes are in bytes.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenure/daemon_status.h"

namespace tenure::client {

// One thing that happened.
struct Event {
  uint64_t sequence = 0;  // 1, 2, ... since the daemon's start, without a gap
  std::chrono::system_clock::time_point time;
  std::string kind;         // "LOADED", "LEASE_EXPIRED", ...: see EventKind in event.proto
  std::string device;       // empty if it is about the daemon as a whole
  uint64_t session_id = 0;  // whom it is about; 0: nobody
  std::string program;      // empty once that session is forgotten
  std::string instance;
  std::string subject;  // the model, as `name@revision`, or the pool's id
  uint64_t bytes = 0;   // how much memory it is about
  std::chrono::nanoseconds took{};
  std::string detail;                 // how a load got its memory, a cause, a reason
  std::optional<ArenaLedger> ledger;  // of the arena, right after it
};

// Asks for the events after one that is known.
struct EventRequest {
  uint64_t after = 0;               // 0: all that the daemon keeps, which is the last 10,000
  std::chrono::nanoseconds wait{};  // for the next if there is none; 30 s at most
  uint32_t limit = 1000;            // 1,000 at most
};

// Events, the oldest first.
struct EventList {
  std::vector<Event> events;
  uint64_t last = 0;  // the sequence of the newest that there is
};

}  // namespace tenure::client
