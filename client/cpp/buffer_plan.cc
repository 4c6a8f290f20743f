#include "tenure/buffer_plan.h"

#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/local_pool.h"
#include "client/cpp/plan_cache.h"
#include "client/cpp/plan_state.h"
#include "client/cpp/slot_state.h"
#include "tenure/buffer_pool.h"

namespace tenure::client {

std::vector<BufferUse> UsesOf(const std::vector<RecordedBuffer>& recorded) {
  std::vector<BufferUse> uses;
  uses.reserve(recorded.size());
  for (const RecordedBuffer& buffer : recorded) {
    BufferUse& use = uses.emplace_back();
    use.id = std::to_string(uses.size() - 1);
    use.bytes = buffer.bytes;
    use.alignment = buffer.alignment;
    use.first_use = static_cast<int64_t>(buffer.first_step);
    if (buffer.end_step.has_value()) use.end = static_cast<int64_t>(*buffer.end_step);
  }
  return uses;
}

BufferPlan::BufferPlan(std::weak_ptr<LocalPool> pool, std::shared_ptr<const PlanState> state)
    : pool_(std::move(pool)), state_(std::move(state)) {}

uint64_t BufferPlan::height() const { return state_->height(); }
uint64_t BufferPlan::lower_bound() const { return state_->lower_bound(); }
bool BufferPlan::proven() const { return state_->proven(); }
std::span<const uint64_t> BufferPlan::offsets() const { return state_->offsets(); }
const std::vector<BufferUse>& BufferPlan::uses() const { return state_->uses(); }

absl::Status BufferPlan::Check(const std::vector<BufferUse>& uses) const {
  return state_->Check(uses);
}

absl::StatusOr<PlannedSlot> BufferPlan::OpenSlot(const SlotOptions& slot,
                                                 const CallOptions& options) const {
  std::shared_ptr<LocalPool> pool = pool_.lock();
  if (pool == nullptr) return LocalPool::PoolGone();
  PoolBlock memory;
  TENURE_CLIENT_RETURN_IF_ERROR(
      pool->AcquireSlot(state_->slot_bytes(), state_->slot_alignment(), options, memory));
  std::unique_ptr<SlotState> state = state_->TakeState();
  state->pool = std::move(pool);
  state->plan = state_;
  state->memory = memory;
  state->fall_back = slot.fall_back;
  return PlannedSlot(std::move(state));
}

absl::StatusOr<BufferPlan> BufferPool::Plan(const std::vector<BufferUse>& uses,
                                            const PlanOptions& plan,
                                            const CallOptions& options) const {
  TENURE_CLIENT_RETURN_IF_ERROR(pool_->CheckUsable());
  TENURE_CLIENT_ASSIGN_OR_RETURN(
      std::shared_ptr<const PlanState> state,
      plans_->Plan(uses, plan.budget, Deadline(options.timeout.value_or(pool_->timeout())),
                   options.cancel));
  return BufferPlan(pool_, std::move(state));
}

}  // namespace tenure::client
