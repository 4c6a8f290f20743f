#pragma once

#include <absl/status/statusor.h>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/cpp/slot_state.h"
#include "client/cpp/spin_lock.h"
#include "core/plan/plan_input.h"
#include "tenure/buffer_plan.h"

namespace tenure::client {

// What a planner answers.
struct MadePlan {
  std::vector<tenure::Bytes> offsets{};  // by buffer
  tenure::Bytes height{};
  tenure::Bytes lower_bound{};
  bool proven = false;
};

// The same as the planner sees it. REQUIRES nothing: it checks.
PlanInput InputOf(std::span<const BufferUse> uses);

// What core/plan refuses, as the library's errors are.
absl::Status ToClientError(const absl::Status& status);

// What is behind a BufferPlan: a plan that was held against its buffers. Immutable, but for the
// spare states of slots. Thread-safe.
class PlanState {
 public:
  // Views of the same memory, or one buffer.
  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t alignment = 1;
    uint32_t buffer = 0;  // the first of them
  };

  // INVALID_PLAN_INPUT; INVALID_REQUEST for an alignment that no pool gives; PROTOCOL if `made` is
  // no plan for these buffers. `input` is theirs.
  static absl::StatusOr<std::shared_ptr<const PlanState>> Make(std::vector<BufferUse> uses,
                                                               const PlanInput& input,
                                                               const MadePlan& made);

  // As BufferPlan::Check.
  absl::Status Check(const std::vector<BufferUse>& uses) const;
  std::optional<uint32_t> Find(std::string_view id) const;

  const std::vector<BufferUse>& uses() const { return uses_; }
  const std::vector<uint64_t>& offsets() const { return offsets_; }  // by buffer
  const std::vector<Place>& storages() const { return storages_; }
  uint32_t storage_of(uint32_t buffer) const { return storage_of_[buffer]; }
  uint64_t height() const { return height_; }
  uint64_t lower_bound() const { return lower_bound_; }
  bool proven() const { return proven_; }
  // What a slot takes: a multiple of 256, and the largest alignment of a buffer, at least 256.
  uint64_t slot_bytes() const;
  uint64_t slot_alignment() const { return alignment_; }

  // Room for a slot in which nothing is in use.
  std::unique_ptr<SlotState> TakeState() const;
  void ReturnState(std::unique_ptr<SlotState> state) const;

 private:
  PlanState() = default;

  std::vector<BufferUse> uses_;
  std::vector<uint64_t> offsets_;
  std::vector<Place> storages_;
  std::vector<uint32_t> storage_of_;
  std::unordered_map<std::string_view, uint32_t> index_of_;  // by id, which is in uses_
  uint64_t height_ = 0;
  uint64_t lower_bound_ = 0;
  uint64_t alignment_ = 0;
  bool proven_ = false;

  mutable SpinLock lock_;
  mutable std::vector<std::unique_ptr<SlotState>> spares_;  // guarded by lock_
};

}  // namespace tenure::client
