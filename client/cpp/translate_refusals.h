#pragma once

// As translate.h, of refusals and of what would fit.

#include <tenure/v1/admin.pb.h>

#include "tenure/refusal.h"

namespace tenure::client {

Refusal ToValue(const v1::ExplainRefusalResponse& response);
DeviceFit ToValue(const v1::DeviceFit& fit);

v1::FitRequest ToMessage(const FitRequest& request);

}  // namespace tenure::client
