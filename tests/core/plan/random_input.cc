#include "tests/core/plan/random_input.h"

#include <string>

namespace tenure {

PlanInput RandomInput(std::mt19937_64& random, const RandomInputOptions& options) {
  const auto below = [&](uint64_t end) { return random() % end; };
  const auto step_below = [&](Step end) {
    return static_cast<Step>(below(static_cast<uint64_t>(end)));
  };
  const uint64_t kinds = random();  // which of the rarer things this input has at all
  PlanInput input(1 + below(options.buffers));
  for (size_t i = 0; i < input.size(); ++i) {
    PlanBuffer& buffer = input[i];
    buffer.id = "b" + std::to_string(i);
    buffer.size = Bytes(1 + below(options.size));
    if ((kinds & 1) != 0) buffer.alignment = Bytes(uint64_t{1} << below(3));
    buffer.first_use = step_below(options.steps);
    const Step length = 1 + step_below(options.steps - buffer.first_use);
    buffer.end = buffer.first_use + length;
    if ((kinds & 2) != 0 && length >= 3 && below(2) == 0) {
      const Step begin = buffer.first_use + 1 + step_below(length - 2);
      buffer.gaps = {{begin, begin + 1 + step_below(*buffer.end - 1 - begin)}};
    }
    if ((kinds & 4) != 0 && below(2) == 0) buffer.alias_group = static_cast<uint32_t>(below(3));
    if ((kinds & 8) != 0 && below(6) == 0) buffer.output = true;
    if ((kinds & 16) != 0 && below(8) == 0) buffer.end = std::nullopt;
    if (!buffer.end.has_value()) buffer.gaps.clear();
    if (options.fixed && (kinds & 32) != 0 && below(4) == 0) {
      buffer.fixed_offset = buffer.alignment * below(4);
      if (!MakePlanProblem({input.begin(), input.begin() + static_cast<ptrdiff_t>(i) + 1}).ok()) {
        buffer.fixed_offset.reset();
      }
    }
    // A view may bring an alignment that the storage's place does not have.
    if (!MakePlanProblem({input.begin(), input.begin() + static_cast<ptrdiff_t>(i) + 1}).ok()) {
      buffer.alias_group.reset();
    }
  }
  // Outputs end with what comes last, which may be what a fixed buffer was told apart from.
  if (!MakePlanProblem(input).ok()) {
    for (PlanBuffer& buffer : input) buffer.fixed_offset.reset();
  }
  return input;
}

}  // namespace tenure
