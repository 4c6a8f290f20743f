#include "client/cpp/plan_state.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/local_pool.h"
#include "core/base/status.h"
#include "core/plan/validate_plan.h"

namespace tenure::client {
namespace {

// So many states are kept for later slots.
constexpr size_t kSpares = 64;

absl::Status NotPlanned(const std::string& id) {
  return MakeError(absl::StatusCode::kNotFound, kNotPlanned,
                   "the plan has no such buffer: '" + id + "'", {{"buffer", id}});
}

}  // namespace

PlanInput InputOf(std::span<const BufferUse> uses) {
  PlanInput input;
  input.reserve(uses.size());
  for (const BufferUse& use : uses) {
    PlanBuffer& buffer = input.emplace_back();
    buffer.id = use.id;
    buffer.size = tenure::Bytes(use.bytes);
    buffer.alignment = tenure::Bytes(use.alignment);
    buffer.first_use = use.first_use;
    buffer.end = use.end;
    for (const StepRange& gap : use.gaps) buffer.gaps.push_back({gap.begin, gap.end});
    buffer.output = use.output;
    buffer.alias_group = use.alias_group;
  }
  return input;
}

absl::Status ToClientError(const absl::Status& status) {
  const std::optional<tenure::ErrorDetail> detail = tenure::DetailOf(status);
  if (!detail.has_value()) return status;
  return MakeError(status.code(), detail->reason, std::string(status.message()),
                   {detail->values.begin(), detail->values.end()});
}

absl::StatusOr<std::shared_ptr<const PlanState>> PlanState::Make(std::vector<BufferUse> uses,
                                                                 const PlanInput& input,
                                                                 const MadePlan& made) {
  const absl::StatusOr<PlanProblem> problem = MakePlanProblem(input);
  if (!problem.ok()) return ToClientError(problem.status());
  if (made.offsets.size() != uses.size()) return ProtocolError("a plan of other buffers");
  const absl::Status valid = ValidatePlan(input, made.offsets, made.height);
  if (!valid.ok())
    return ProtocolError("no plan for these buffers: " + std::string(valid.message()));

  std::shared_ptr<PlanState> plan(new PlanState());
  plan->uses_ = std::move(uses);
  plan->storage_of_ = problem->storage_of;
  plan->height_ = made.height.count();
  plan->lower_bound_ = made.lower_bound.count();
  plan->proven_ = made.proven;
  plan->alignment_ = LocalPool::kGranule;
  for (const Storage& storage : problem->storages) {
    plan->storages_.push_back({.offset = made.offsets[storage.buffer].count(),
                               .bytes = storage.size.count(),
                               .alignment = storage.alignment.count(),
                               .buffer = storage.buffer});
    plan->alignment_ = std::max(plan->alignment_, storage.alignment.count());
  }
  plan->index_of_.reserve(plan->uses_.size());
  for (uint32_t i = 0; i < plan->uses_.size(); ++i) {
    plan->offsets_.push_back(made.offsets[i].count());
    plan->index_of_.emplace(plan->uses_[i].id, i);
  }
  if (plan->alignment_ > LocalPool::kMostAlignment) {
    return MakeError(absl::StatusCode::kInvalidArgument, kInvalidRequest,
                     "no memory is aligned at so much: " + std::to_string(plan->alignment_),
                     {{"alignment", std::to_string(plan->alignment_)}});
  }
  return plan;
}

uint64_t PlanState::slot_bytes() const {
  return (height_ + LocalPool::kGranule - 1) / LocalPool::kGranule * LocalPool::kGranule;
}

std::optional<uint32_t> PlanState::Find(std::string_view id) const {
  const auto found = index_of_.find(id);
  if (found == index_of_.end()) return std::nullopt;
  return found->second;
}

absl::Status PlanState::Check(const std::vector<BufferUse>& uses) const {
  const PlanInput input = InputOf(uses);
  if (const auto problem = MakePlanProblem(input); !problem.ok()) {
    return ToClientError(problem.status());
  }
  std::vector<tenure::Bytes> offsets;
  offsets.reserve(uses.size());
  for (const BufferUse& use : uses) {
    const std::optional<uint32_t> index = Find(use.id);
    if (!index.has_value()) return NotPlanned(use.id);
    const BufferUse& planned = uses_[*index];
    if (use.bytes > planned.bytes || use.alignment > planned.alignment) {
      return MakeError(absl::StatusCode::kFailedPrecondition, kPlanTooSmall,
                       "a buffer that is larger or more aligned than planned: '" + use.id + "'",
                       {{"buffer", use.id}});
    }
    offsets.emplace_back(offsets_[*index]);
  }
  return ToClientError(ValidatePlan(input, offsets, tenure::Bytes(height_)));
}

std::unique_ptr<SlotState> PlanState::TakeState() const {
  {
    const std::lock_guard lock(lock_);
    if (!spares_.empty()) {
      std::unique_ptr<SlotState> state = std::move(spares_.back());
      spares_.pop_back();
      return state;
    }
  }
  auto state = std::make_unique<SlotState>();
  state->acquired.resize(uses_.size());
  state->storages.resize(storages_.size());
  return state;
}

void PlanState::ReturnState(std::unique_ptr<SlotState> state) const {
  const std::lock_guard lock(lock_);
  if (spares_.size() < kSpares) spares_.push_back(std::move(state));
}

}  // namespace tenure::client
