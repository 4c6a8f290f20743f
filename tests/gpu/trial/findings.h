#pragma once

#include <stdexcept>
#include <string>

#include "tests/bench/samples.h"

namespace tenure::trial {

// Ends a part that this machine cannot run, in words that say why. Nothing is wrong then.
class CannotRun : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What one part of the trial finds out, told line by line as it is found: what is written is not
// lost when the part is ended. Each line is a JSON object:
//
//   {"check": "the bytes are right", "holds": true}
//   {"figure": "create_2MiB_us", "p50": 4, "p90": 5, "p99": 9}     {"figure": "gbps",
//   "value": 24.1}
//   {"words": "the driver runs no kernels"}
//
// Keys are unlike; the unit is a key's ending. Everything throws std::runtime_error if nobody
// listens. Thread-compatible.
class Findings {
 public:
  explicit Findings(int fd) : fd_(fd) {}

  void Check(const std::string& what, bool holds);
  void Figure(const std::string& key, const bench::Samples& samples);
  void Figure(const std::string& key, double value);
  void Say(const std::string& words);

 private:
  void Tell(const std::string& line);

  const int fd_;
};

}  // namespace tenure::trial
