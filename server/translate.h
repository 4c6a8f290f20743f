#pragma once

#include <google/protobuf/duration.pb.h>
#include <optional>
#include <string>
#include <string_view>
#include <tenure/v1/admin.pb.h>
#include <tenure/v1/buffer.pb.h>
#include <tenure/v1/lease.pb.h>
#include <tenure/v1/model.pb.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/store/device_store.h"
#include "core/store/fit.h"
#include "core/store/load.h"
#include "core/store/store.h"
#include "server/refusal_log.h"
#include "server/session_registry.h"
#include "server/wanted_models.h"

// Between the API's messages and the core's values, and nothing else. What comes in is checked by
// itself (bounds, forms); what it names is the Store's to check.

namespace tenure {

// --- In. INVALID_REQUEST naming the field.

StatusOr<LoadRequest> FromProto(const v1::LoadModelRequest& request, SessionId session);
// A name that no model can have is refused as such, not as one that is not found.
Status CheckName(const std::string& name);
Status CheckRequestId(std::string_view field, const std::string& request_id);
// 100 ms to a day.
StatusOr<Duration> LeaseTtlFromProto(std::string_view field, const google::protobuf::Duration& ttl);
// 0 to a day.
StatusOr<Duration> TimeoutFromProto(const google::protobuf::Duration& timeout);
// Likewise.
StatusOr<Duration> BudgetFromProto(const google::protobuf::Duration& budget);
// Up to a day. Unset: not at all.
StatusOr<Duration> WaitFromProto(bool set, const google::protobuf::Duration& wait);
StatusOr<PoolRequest> FromProto(const v1::AcquireBuffersRequest& request, SessionId session);
StatusOr<PoolRequest> FromProto(const v1::GrowPoolRequest& request, SessionId session);
StatusOr<BufferSpec> FromProto(const v1::BufferSpec& spec);

// --- Out.

google::protobuf::Duration ToProto(Duration duration);
v1::ModelState ToProto(RegionState state);
v1::Reuse ToProto(Reuse reuse);
v1::Holder ToProto(const Holder& holder);
v1::Model ToProto(const ModelView& model);
v1::WeightLease ToProto(const GrantedLease& lease);
v1::Pool ToProto(const PoolView& pool);
v1::Buffer ToProto(const Buffer& buffer);
v1::LoadModelResponse ToProto(const LoadResult& result);
v1::UnloadModelResponse ToProto(const UnloadResult& result);
v1::LoadProgress ToProto(const LoadProgress& progress);
v1::LeaseRenewal ToProto(LeaseId id, const DeviceStore::Renewal& renewal, Instant now);
// The tensor at `index` of the canonical order.
v1::Tensor ToProto(const Layout& layout, size_t index);
v1::ArenaLedger ToProto(std::string_view name, const Ledger& ledger);
v1::Device ToProto(const DeviceInfo& device, const DeviceStore::Snapshot& weights,
                   const RuntimeStore::Snapshot& runtime);
v1::Session ToProto(const SessionView& session, const RegionUse& use);
v1::Readiness ToProto(const WantedModels::Progress& progress);
v1::Refusal ToProto(const Refusal& refusal, Instant now);
v1::DeviceFit ToProto(const DeviceFit& fit);

}  // namespace tenure
