#pragma once

#include "tests/bench/samples.h"

namespace tenure::bench {

// What it costs to get a buffer from the daemon itself, with a call for each, beside the emptiest
// call there is with a session's token; clients of their own sessions and channels, all at once:
//
//   acquire_N_us          AcquireBuffers of one buffer by each of N clients
//   empty_unary_N_us      the same clients' empty calls, in turns with those
//   acquire_N_per_s, empty_unary_N_per_s    calls of all clients together
void AddLeaseFigures(int rounds, Report& report);

}  // namespace tenure::bench
