#pragma once

#include <memory>

#include "client/cpp/plan_cache.h"

namespace tenure::client {

class Connection;

// The daemon as a planner, for as long as `connection` is there.
PlanCache::Planner DaemonPlans(std::weak_ptr<Connection> connection);

}  // namespace tenure::client
