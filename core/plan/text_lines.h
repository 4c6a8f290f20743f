#pragma once

// The ground on which the two readers of planner input stand: lines, and errors that name them.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/plan/plan_input.h"

namespace tenure {

// The lines of a text, without their ends, be those \n or \r\n, and without a byte order mark.
// Blank ones are counted and left out. Thread-compatible.
class TextLines {
 public:
  explicit TextLines(std::string_view text);

  // nullopt after the last one.
  std::optional<std::string_view> Next();
  // Of the line that was given last, from 1 on.
  size_t number() const { return number_; }

 private:
  std::string_view rest_;
  size_t number_ = 0;
};

// `text` without the spaces and tabs at its ends.
std::string_view Trimmed(std::string_view text);

// INVALID_PLAN_INPUT with the values `line`, `fault` and `values`.
Status FaultAt(size_t line, const std::string& fault, const std::string& explanation,
               ErrorValues values = {});

// The fault bad_id unless `id` is fit to be shown: of no control characters, and at most 1024
// bytes. What else an id has to be MakePlanProblem knows.
Status CheckId(size_t line, std::string_view id);

// The fault that MakePlanProblem finds in `input`, with the line that it is in: `lines` has one for
// each buffer.
Status CheckAtLines(const PlanInput& input, const std::vector<size_t>& lines);

}  // namespace tenure
