#include "tenure/plan_family.h"

#include <algorithm>
#include <string>

#include "client/cpp/error.h"

namespace tenure::client {
namespace {

std::string TextOf(std::span<const uint64_t> shape) {
  std::string text;
  for (const uint64_t dimension : shape) {
    text += (text.empty() ? "" : "x") + std::to_string(dimension);
  }
  return text;
}

}  // namespace

absl::Status PlanFamily::CheckShape(std::span<const uint64_t> shape) const {
  if (!shape.empty() && (plans_.empty() || plans_.front().first.size() == shape.size())) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kInvalidArgument, kInvalidRequest,
                   "a shape of another number of dimensions: " + TextOf(shape),
                   {{"shape", TextOf(shape)}});
}

absl::Status PlanFamily::Add(std::vector<uint64_t> shape, BufferPlan plan) {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckShape(shape));
  std::erase_if(plans_, [&](const auto& each) { return each.first == shape; });
  const auto place = std::upper_bound(
      plans_.begin(), plans_.end(), plan.height(),
      [](uint64_t height, const auto& each) { return height < each.second.height(); });
  plans_.emplace(place, std::move(shape), std::move(plan));
  return absl::OkStatus();
}

absl::StatusOr<BufferPlan> PlanFamily::Smallest(std::span<const uint64_t> shape) const {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckShape(shape));
  for (const auto& [of, plan] : plans_) {
    if (std::equal(of.begin(), of.end(), shape.begin(), std::greater_equal())) return plan;
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, kPlanTooSmall,
                   "no plan is for a shape as large: " + TextOf(shape), {{"shape", TextOf(shape)}});
}

}  // namespace tenure::client
