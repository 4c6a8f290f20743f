#include "tests/fuzz/plan_invariants.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/plan/make_plan.h"
#include "core/plan/validate_plan.h"

namespace tenure {
namespace {

constexpr size_t kMostMessage = 5000;  // two names of 1024 bytes, and what is said about them

void CheckPlanRefusal(const Status& status) {
  TENURE_CHECK(HasReason(status, Reason::kInvalidPlanInput));
  const std::string message(status.message());
  TENURE_CHECK(message.size() <= kMostMessage);
  TENURE_CHECK(std::ranges::none_of(
      message, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }));
  const ErrorValues values = DetailOf(status)->values;
  const auto count = [&](std::string_view name) {
    return std::ranges::count(values, name, [](const auto& value) { return value.first; });
  };
  TENURE_CHECK(count("line") == 1 && count("fault") == 1);
}

}  // namespace

bool CheckPlanInput(const StatusOr<PlanInput>& input) {
  if (!input.ok()) {
    CheckPlanRefusal(input.status());
    return false;
  }
  const StatusOr<PlanProblem> problem = MakePlanProblem(*input);
  TENURE_CHECK(problem.ok());
  const Plan plan =
      MakePlan(*problem, {.budget = std::chrono::milliseconds(20), .nodes = 64}, SteadyClock());
  TENURE_CHECK(plan.offsets.size() == problem->storages.size());
  TENURE_CHECK(plan.lower_bound <= plan.height);
  TENURE_CHECK(plan.proven || plan.lower_bound < plan.height);
  std::vector<Bytes> offsets;
  offsets.reserve(input->size());
  for (const uint32_t storage : problem->storage_of) offsets.push_back(plan.offsets[storage]);
  TENURE_CHECK(ValidatePlan(*input, offsets, plan.height).ok());
  return true;
}

}  // namespace tenure
