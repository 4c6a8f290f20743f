#pragma once

#include <string_view>

#include "core/base/status.h"
#include "core/plan/plan_input.h"

namespace tenure {

// Buffers out of a table of comma-separated values, as MiniMalloc reads and writes them: a heading,
// then one buffer a line. The columns may be in any order:
//
//   id         or `buffer`, `buffer_id`
//   lower      or `begin`, `start`: the first step of its use
//   upper      the step after the last; empty if it is not known, so that it never ends
//   end        instead of `upper`: the last step itself. Those of gaps are then meant so too.
//   size       in bytes
//
// and, each optional as a column and as a value:
//
//   alignment  a power of two
//   gaps       steps in which it holds nothing: `4-6 9-12`, apart by spaces or semicolons. Those
//              that keep a part of it (`4-6@0:512`) are refused.
//   offset     where it has to lie
//   alias      a name; buffers of one name are views of one storage
//   output     1 if it is read after the end
//   hint       passed over
//
// Blank lines are passed over, blanks around a value too, and a value may stand in double quotes,
// in which "" is one of them. MakePlanProblem takes what is returned. Memory is proportional to the
// text.
//
// INVALID_PLAN_INPUT with the values `line`, from 1 on, and `fault`: one of those that
// MakePlanProblem has, or
//   no_header                       nothing but blank lines
//   unknown_column, missing_column, duplicate_column
//                                   of the heading, with `column`
//   field_count                     more values than columns, or fewer
//   bad_quote                       a quote that does not end, or text after it
//   bad_id                          a control character, or more than 1024 bytes
//   bad_number, bad_output          with `column`
//   gap_window                      a gap that keeps a part
StatusOr<PlanInput> ParsePlanCsv(std::string_view text);

}  // namespace tenure
