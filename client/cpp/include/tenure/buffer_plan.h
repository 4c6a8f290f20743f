#pragma once

// One allocation instead of many, for requests whose buffers and their order are known: a plan puts
// buffers that are not in use at once on the same bytes, and a slot is the memory of one request.
//
//   auto plan = pool.Plan({{.id = "hidden", .bytes = 4 << 20, .first_use = 0, .end = 2},
//                          {.id = "logits", .bytes = 1 << 20, .first_use = 1, .end = 3}});
//   auto slot = plan->OpenSlot();
//   auto hidden = slot->Acquire("hidden", 4 << 20);  // hidden->data
//   slot->Release("hidden", Fence::At(compute, 2));

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenure/buffer_recording.h"
#include "tenure/call_options.h"
#include "tenure/export.h"
#include "tenure/planned_slot.h"

namespace tenure::client {

class LocalPool;
class PlanState;

// Steps [begin, end) of a request's work.
struct StepRange {
  int64_t begin = 0;
  int64_t end = 0;

  friend bool operator==(const StepRange&, const StepRange&) = default;
};

// How a request uses one of its buffers. Steps count from 0 on; only their order matters.
struct BufferUse {
  // Each is unique in its request.
  std::string id{};
  uint64_t bytes = 0;
  // A power of two, at most 2 MiB.
  uint64_t alignment = 256;
  // In use during [first_use, end): to the end of its last reader. nullopt: it never ends.
  int64_t first_use = 0;
  std::optional<int64_t> end{};
  // Within that it holds nothing that is read later. In order, apart, not empty.
  std::vector<StepRange> gaps{};
  // Read after the request: it lives to the end of all, at least.
  bool output = false;
  // Buffers of one group are views of the same memory, which is in use while any of them is.
  std::optional<uint32_t> alias_group{};

  friend bool operator==(const BufferUse&, const BufferUse&) = default;
};

// What was recorded of one request, for a plan of the next ones: buffer "0", "1", ... in the order
// in which they were acquired.
TENURE_CLIENT_API std::vector<BufferUse> UsesOf(const std::vector<RecordedBuffer>& recorded);

struct PlanOptions {
  // How long the daemon looks for a lower plan. Unset: as it is configured, which is also the most.
  std::optional<std::chrono::nanoseconds> budget{};
};

// Where the buffers of a request lie in the memory of a slot, so that no two that are in use at
// once share a byte. BufferPool::Plan makes them. A value that is copied freely. Thread-safe,
// except for assigning and destroying.
class TENURE_CLIENT_API BufferPlan {
 public:
  // For the library.
  BufferPlan(std::weak_ptr<LocalPool> pool, std::shared_ptr<const PlanState> state);

  // What a slot takes, in bytes; no plan takes less than `lower_bound`, nor than `height` if it is
  // `proven`.
  uint64_t height() const;
  uint64_t lower_bound() const;
  bool proven() const;
  // By buffer of the request, in its order.
  std::span<const uint64_t> offsets() const;
  const std::vector<BufferUse>& uses() const;

  // Whether the plan holds for these buffers, which it knows by their ids; it may know others.
  // NOT_PLANNED for a buffer that it does not know, PLAN_TOO_SMALL for one that is larger or more
  // aligned than planned, PLAN_OVERLAP for one that would be used together with another one that
  // lies on the same bytes, or is a view of memory that lies elsewhere. The errors have the value
  // `buffer`, and those about two `other`. INVALID_PLAN_INPUT for what makes no sense.
  absl::Status Check(const std::vector<BufferUse>& uses) const;

  // The memory for one request: of a slot that was closed, or granted by the daemon as one buffer,
  // an activation, of `height` bytes (rounded up to 256). Errors as of BufferPool::Acquire, and
  // RELEASED once the pool is gone.
  absl::StatusOr<PlannedSlot> OpenSlot(const SlotOptions& slot = {},
                                       const CallOptions& options = {}) const;

 private:
  std::weak_ptr<LocalPool> pool_;  // which does not stay for the sake of a plan
  std::shared_ptr<const PlanState> state_;
};

}  // namespace tenure::client

namespace tenure {
using client::BufferPlan;
using client::BufferUse;
using client::PlanOptions;
using client::StepRange;
using client::UsesOf;
}  // namespace tenure
