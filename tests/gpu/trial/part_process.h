#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "tests/gpu/trial/part.h"

namespace tenure::trial {

// How a part ended.
enum class Ending {
  kFinished,   // it found out what it could
  kFailed,     // it did not get to its end, with what it said last
  kCannotRun,  // this machine cannot run it, with what it said last
  kTimedOut,
  kInterrupted,  // somebody told this program to stop
};

// The exit statuses of a part's own process.
inline constexpr int kPartFailed = 1;
inline constexpr int kPartCannotRun = 77;

// Makes this process the parent of all that its descendants leave behind, and the signals that tell
// it to stop something that RunPart sees. Called once, before any part.
void AdoptOrphans();

// Runs the part in a process of its own: this program with `arguments`, the fd of its findings
// after them. `hear` gets each line at once. When it has ended, or `limit` is over, nothing that it
// started is left.
Ending RunPart(std::vector<std::string> arguments, Duration limit,
               const std::function<void(const std::string&)>& hear);

}  // namespace tenure::trial
