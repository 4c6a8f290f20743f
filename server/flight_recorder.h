#pragma once

#include <optional>
#include <string>
#include <tenure/v1/flight_record.pb.h>
#include <thread>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "server/memory_map.h"
#include "server/refusal_log.h"
#include "server/session_registry.h"

namespace tenure {

struct FlightRecorderOptions {
  std::string directory;  // made when the first record is written
  int kept = 5;           // files; the oldest goes for a new one
  Duration interval = std::chrono::minutes(1);
};

// Writes down what led to a refusal: a FlightRecord as `refusal-ID.json`, from a thread of its own.
// Refusals that follow within the interval are in the events of the next record. Thread-safe.
class FlightRecorder {
 public:
  // All references outlive it. REQUIRES: options.kept >= 1.
  FlightRecorder(FlightRecorderOptions options, const Store& store, const SessionRegistry& sessions,
                 const RefusalLog& refusals, const MapMaker& maps, const Clock& clock);
  // Writes what is due, and ends.
  ~FlightRecorder();

  // A call was refused for want of room. Never waits.
  void OnRefusal(RefusalId refusal);

 private:
  void Run();
  // The path.
  StatusOr<std::string> Write(RefusalId refusal) const;
  void DropOldest() const;

  const FlightRecorderOptions options_;
  const Store& store_;
  const SessionRegistry& sessions_;
  const RefusalLog& refusals_;
  const MapMaker& maps_;
  const Clock& clock_;

  Mutex mutex_;
  CondVar changed_;
  std::optional<RefusalId> due_ ABSL_GUARDED_BY(mutex_);
  Instant next_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tenure
