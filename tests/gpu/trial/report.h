#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tests/gpu/trial/part.h"
#include "tests/gpu/trial/part_process.h"

namespace tenure::trial {

// What the whole trial found out: told to people as it comes, and a JSON object at the end:
//
//   {"date": "2027-01-31T12:00:00Z", "device": "NVIDIA H200", "driver": "13.0", "memory_mib":
//   143771,
//    "model_mib": 1024,
//    "parts": [{"number": 6, "name": "driver-times", "ending": "finished", "words": [],
//               "seconds": 3.1, "checks": [{"what": "...", "holds": true}],
//               "figures": {"create_2MiB_us": {"p50": 4, "p90": 5, "p99": 9}, "rows": 81}}]}
//
// `ending` is "finished", "failed", "cannot run", "timed out" or "interrupted". Thread-compatible.
class Report {
 public:
  // `machine` is what the object begins with.
  explicit Report(nlohmann::json machine);

  void Begin(const Part& part);
  // One line of the part's findings.
  void Hear(const std::string& line);
  void End(Ending ending, Duration took);
  // A part for which no time is left.
  void Skip(const Part& part, const std::string& words);

  // Whether nothing failed so far: what a machine cannot run is no failure.
  bool good() const { return good_; }
  // Prints how many parts ended how.
  void PrintTotals() const;
  // Throws std::runtime_error if the disk refuses.
  void Write(const std::string& path) const;

 private:
  nlohmann::json json_;
  nlohmann::json part_;  // the one under way
  bool good_ = true;
};

}  // namespace tenure::trial
