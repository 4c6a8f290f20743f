#pragma once

#include <tenure/v1/model.pb.h>
#include <vector>

#include "core/base/status.h"
#include "core/store/load.h"

namespace tenure {

// The page of `models`, which are in the order of name, device, revision, that the request asks
// for. INVALID_REQUEST for a negative size or a bad token.
StatusOr<v1::ListModelsResponse> ListModelsPage(const std::vector<ModelView>& models,
                                                const v1::ListModelsRequest& request);

// The page of the model's tensors. INVALID_REQUEST also for a token of another architecture.
StatusOr<v1::ListTensorsResponse> ListTensorsPage(const ModelView& model,
                                                  const v1::ListTensorsRequest& request);

}  // namespace tenure
