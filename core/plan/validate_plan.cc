#include "core/plan/validate_plan.h"
namespace tenure {
Status ValidatePlan(const PlanInput&, const std::vector<Bytes>&, Bytes) { return absl::OkStatus(); }
}  // namespace tenure
