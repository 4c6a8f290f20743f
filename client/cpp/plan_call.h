#pragma once

#include <absl/status/statusor.h>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "client/cpp/connection.h"
#include "client/cpp/deadline.h"
#include "core/plan/plan_input.h"

namespace tenure::client {

struct PlanCallOptions {
  // How long the daemon looks for a lower plan; nullopt: as it is configured, which is also the
  // most.
  std::optional<Duration> budget{};
  // A higher plan is refused; nullopt: none is.
  std::optional<Bytes> capacity{};
};

// A plan that the daemon made, see PlanBuffersResponse in plan.proto.
struct PlanReply {
  std::string plan_id{};
  std::vector<Bytes> offsets{};  // by buffer of the input
  Bytes height{};
  Bytes lower_bound{};
  bool proven = false;
  Duration seconds{0};  // that it took to make
  bool cached = false;  // it was there already
  uint32_t planner_version = 0;
};

// Has the daemon plan `input`, which it checks. Its errors, of which PLAN_INFEASIBLE says what is
// in the way of `capacity`; PROTOCOL for a plan that is not one of `input`'s buffers.
absl::StatusOr<PlanReply> PlanBuffers(Connection& connection, const PlanInput& input,
                                      const PlanCallOptions& options, Deadline deadline,
                                      const std::stop_token& cancel = {});

}  // namespace tenure::client
