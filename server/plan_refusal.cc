#include "server/plan_refusal.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/plan/shortfall.h"

namespace tenure {
namespace {

constexpr size_t kMostNames = 20;

// "C at 5, D at 9"
std::string Written(const PlanInput& input, const std::vector<LateStart>& starts) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(starts.size(), kMostNames); ++i) {
    texts.push_back(absl::StrCat(input[starts[i].buffer].id, " at ", starts[i].first_use));
  }
  return absl::StrJoin(texts, ", ");
}

std::string Names(const PlanInput& input, const PlanProblem& problem,
                  const std::vector<uint32_t>& storages) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(storages.size(), kMostNames); ++i) {
    names.push_back(input[problem.storages[storages[i]].buffer].id);
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

Status PlanInfeasible(const StoredPlan& plan, Bytes capacity,
                      const std::optional<LateStarts>& late) {
  const PlanInput& input = *plan.input;
  const StatusOr<PlanProblem> problem = MakePlanProblem(input);
  TENURE_CHECK(problem.ok());
  ErrorValues values = {{"capacity", absl::StrCat(capacity.count())},
                        {"height", absl::StrCat(plan.height.count())},
                        {"lower_bound", absl::StrCat(plan.lower_bound.count())}};
  std::string message;
  if (const auto shortfall = FindShortfall(*problem, capacity); shortfall.has_value()) {
    const std::string alive = Names(input, *problem, shortfall->storages);
    values.emplace_back("step", absl::StrCat(shortfall->step));
    values.emplace_back("needed", absl::StrCat(shortfall->needed.count()));
    values.emplace_back("alive", alive);
    message =
        absl::StrCat("no plan fits: the capacity is ", FormatBytes(capacity), ", in use are ",
                     FormatBytes(shortfall->needed), " at step ", shortfall->step, " by ", alive);
  } else {
    message = absl::StrCat("no plan that fits was found: the capacity is ", FormatBytes(capacity),
                           ", the lowest plan's height ", FormatBytes(plan.height),
                           ", and none is lower than ", FormatBytes(plan.lower_bound));
  }
  if (late.has_value()) {
    const std::string starts = Written(input, late->starts);
    values.emplace_back("late_starts", starts);
    values.emplace_back("delay", absl::StrCat(late->delay));
    absl::StrAppend(&message, "; one fits if these start later: ", starts);
  }
  return Error(Reason::kPlanInfeasible, message, values);
}

}  // namespace tenure
