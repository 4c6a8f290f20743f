#include "core/plan/can_reuse.h"

#include "core/base/check.h"

namespace tenure {

bool CanReuse(const PlanInput& input, size_t last, Bytes offset, size_t next) {
  TENURE_CHECK(last < input.size() && next < input.size());
  const PlanBuffer& after = input[next];
  if (after.size > input[last].size || !(offset % after.alignment).zero()) return false;
  if (after.fixed_offset.value_or(offset) != offset) return false;
  const auto is_view = [&](const PlanBuffer& buffer) {
    return buffer.alias_group.has_value() && buffer.alias_group == input[last].alias_group;
  };
  if (is_view(after)) return false;
  for (size_t i = 0; i < input.size(); ++i) {
    if (i != last && !is_view(input[i])) continue;
    if (input[i].output || !input[i].end.has_value() || *input[i].end > after.first_use)
      return false;
  }
  return true;
}

}  // namespace tenure
