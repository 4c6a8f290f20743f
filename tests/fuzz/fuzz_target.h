#pragma once

#include <string_view>

namespace tenure {

// What each fuzzer defines. Has `input` read, ends the process if an invariant does not hold, and
// returns whether the input was accepted.
bool AcceptsInput(std::string_view input);

}  // namespace tenure
