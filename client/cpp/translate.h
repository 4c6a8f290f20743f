#pragma once

// From the API's messages to the values that callers see, and back.

#include <absl/status/statusor.h>
#include <tenure/v1/admin.pb.h>
#include <tenure/v1/buffer.pb.h>
#include <tenure/v1/lease.pb.h>
#include <tenure/v1/model.pb.h>

#include "client/cpp/held_lease.h"
#include "client/cpp/session_pools.h"
#include "tenure/buffer_kind.h"
#include "tenure/daemon_status.h"
#include "tenure/load.h"
#include "tenure/model.h"

namespace tenure::client {

Model ToValue(const v1::Model& model);
ModelEvent ToValue(const v1::WatchModelResponse& event);
TensorPlace ToValue(const v1::Tensor& tensor);
// Without the lease.
LoadResult ToValue(const v1::LoadModelResponse& response);
UnloadResult ToValue(const v1::UnloadModelResponse& response);
ArenaLedger ToValue(const v1::ArenaLedger& ledger);
DaemonStatus ToValue(const v1::GetStatusResponse& response);
Session ToValue(const v1::Session& session);

// Where a lease's memory is. FAILED_PRECONDITION with reason UNSUPPORTED_BACKEND if that is nowhere
// that this library can map.
absl::StatusOr<LeasedDevice> ToDevice(const v1::WeightLease& granted);
// Likewise; PROTOCOL if its sizes make no sense.
absl::StatusOr<PoolSpec> ToValue(const v1::Pool& pool);

v1::BufferKind ToMessage(BufferKind kind);
// Without `request_id`.
v1::LoadModelRequest ToMessage(const LoadRequest& request);

}  // namespace tenure::client
