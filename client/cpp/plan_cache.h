#pragma once

#include <absl/status/statusor.h>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "client/cpp/deadline.h"
#include "client/cpp/plan_state.h"
#include "core/plan/plan_input.h"
#include "tenure/buffer_plan.h"

namespace tenure::client {

// Of all that is said of the buffers, in their order.
uint64_t DigestOf(std::span<const BufferUse> uses);

// The plans that a client has asked for, by what it asked, and whoever makes those that are not
// there. Keeps those that were used last. Thread-safe.
class PlanCache {
 public:
  using Planner =
      std::function<absl::StatusOr<MadePlan>(const PlanInput& input, std::optional<Duration> budget,
                                             Deadline deadline, const std::stop_token& cancel)>;

  explicit PlanCache(Planner planner) : planner_(std::move(planner)) {}

  // A plan for these buffers; one that is there already if it was looked for as long as `budget`
  // says, or is proven. As PlanState::Make, and what the planner refuses.
  absl::StatusOr<std::shared_ptr<const PlanState>> Plan(const std::vector<BufferUse>& uses,
                                                        std::optional<Duration> budget,
                                                        Deadline deadline,
                                                        const std::stop_token& cancel);

 private:
  struct Entry {
    uint64_t digest;
    std::optional<Duration> budget;  // nullopt: the most
    std::shared_ptr<const PlanState> plan;
  };

  // Moves it to the front. Null if there is none.
  std::shared_ptr<const PlanState> Find(uint64_t digest, std::optional<Duration> budget);
  void Add(Entry entry);

  const Planner planner_;

  std::mutex mutex_;
  std::list<Entry> entries_;  // guarded by mutex_: the one that was used last is the first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> by_digest_;  // guarded by mutex_
  size_t buffers_ = 0;                                                  // guarded by mutex_, of all
};

}  // namespace tenure::client
