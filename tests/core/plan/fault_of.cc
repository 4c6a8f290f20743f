#include "tests/core/plan/fault_of.h"

namespace tenure {

std::string FaultOf(const Status& status) {
  if (status.ok()) return "";
  const auto detail = DetailOf(status);
  if (!detail.has_value() || detail->reason != "INVALID_PLAN_INPUT") return "another error";
  std::string fault;
  for (const char* name : {"fault", "line", "column", "key"}) {
    for (const auto& [value_name, value] : detail->values) {
      if (value_name == name) fault += (fault.empty() ? "" : " ") + value;
    }
  }
  return fault;
}

}  // namespace tenure
