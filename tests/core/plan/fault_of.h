#pragma once

#include <string>

#include "core/base/status.h"

namespace tenure {

// What a reader of planner input says is wrong: "fault line", and the column or key if it names
// one.
// "" for OK.
std::string FaultOf(const Status& status);

}  // namespace tenure
