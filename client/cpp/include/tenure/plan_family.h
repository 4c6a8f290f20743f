#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tenure/buffer_plan.h"
#include "tenure/export.h"

namespace tenure::client {

// Plans of one graph by the shape of its requests, as batch and length, of which a few stand for
// all: who asks for a shape gets the plan of one that is as large or larger. Thread-compatible.
class TENURE_CLIENT_API PlanFamily {
 public:
  // In place of an earlier one of the same shape. INVALID_REQUEST for a shape of no dimensions, or
  // of another number of them than the first one.
  absl::Status Add(std::vector<uint64_t> shape, BufferPlan plan);
  // The plan of the least height of which no dimension is smaller than asked. PLAN_TOO_SMALL, with
  // the value `shape`, if there is none; INVALID_REQUEST as above.
  absl::StatusOr<BufferPlan> Smallest(std::span<const uint64_t> shape) const;

  size_t size() const { return plans_.size(); }

 private:
  absl::Status CheckShape(std::span<const uint64_t> shape) const;

  std::vector<std::pair<std::vector<uint64_t>, BufferPlan>> plans_;  // the lowest first
};

}  // namespace tenure::client

namespace tenure {
using client::PlanFamily;
}  // namespace tenure
