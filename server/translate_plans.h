#pragma once

#include <tenure/v1/plan.pb.h>

#include "core/base/status.h"
#include "core/plan/plan_input.h"
#include "server/planner.h"

// As translate.h, for plans.

namespace tenure {

// INVALID_REQUEST naming the field for columns of different lengths, and for an index beyond them
// or that comes twice where it must not; LIMIT. What each value means is the planner's to check.
StatusOr<PlanInput> FromProto(const v1::PlanBuffersRequest& request);
StatusOr<PlanWish> PlanWishFromProto(const v1::PlanBuffersRequest& request);

v1::PlanBuffersResponse ToProto(const PlanAnswer& answer);

}  // namespace tenure
