#pragma once

#include <string_view>

#include "core/base/status.h"
#include "core/plan/plan_input.h"

namespace tenure {

// Buffers out of the trace of a run: what its operators read and write, in their order. Each line
// is a JSON object, of one of three forms.
//
//   {"tensor": "x", "size": 4096, "alignment": 256}
//
// makes a tensor known, before anything uses it. One that no operator writes is there from the
// first operator on, as the inputs of a graph are. `alignment` is optional.
//
//   {"op": "matmul", "inputs": ["x"], "outputs": [{"name": "y", "size": 4096}], "step": 3}
//
// is an operator; all but `op` is optional. What it writes is made known here, with the keys of a
// tensor and `name` for `tensor`, or is the name of a tensor that is known and was neither read nor
// written before. Steps never fall; one that is not given is the one after the last, from 0 on.
// Operators of one step run at once. Weights are no buffers and are left out.
//
//   {"outputs": ["y"]}
//
// names what is read after the end.
//
// A view (of a reshape, say) has `"alias_of": "x"` and lies where `x` does; its `size` is then
// optional. Views of views are views of one storage. A tensor lives from the step of its first
// writer to the end of its last reader, at least for the step in which it is written.
//
// MakePlanProblem takes what is returned: the tensors in the order in which they become known.
// Memory is proportional to the text.
//
// INVALID_PLAN_INPUT with the values `line`, from 1 on, and `fault`: one of those that
// MakePlanProblem has, or
//   not_json, not_an_object
//   missing_key, unknown_key, bad_value   with `key`
//   bad_id                                a control character, or more than 1024 bytes
//   unknown_tensor                        with `buffer`, as all that follow
//   duplicate_tensor                      made known twice
//   written_twice, written_after_read     in place is: a new name with `alias_of`
//   step_order                            a step before the one of the line before
StatusOr<PlanInput> ParsePlanTrace(std::string_view text);

}  // namespace tenure
