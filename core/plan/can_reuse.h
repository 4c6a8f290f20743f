#pragma once

#include <cstddef>

#include "core/base/units.h"
#include "core/plan/plan_input.h"

namespace tenure {

// True if buffer `next` of `input` may be given the memory that buffer `last` has at `offset`: the
// last reader of `last`, and of every other view of its storage, has ended before `next` is first
// written, and there is as much room and as much alignment as `next` needs. A gap is no end: what
// comes after it needs the memory again.
// REQUIRES: MakePlanProblem takes `input`; both are indices into it.
bool CanReuse(const PlanInput& input, size_t last, Bytes offset, size_t next);

}  // namespace tenure
