#include <algorithm>
#include <string>
#include <vector>

#include "server/admin_service.h"
#include "server/errors.h"
#include "server/translate.h"

// What operators do.

namespace tenure {
namespace {

// Of a call that has no deadline of its own.
constexpr Duration kMaxTrimCall = std::chrono::seconds(60);
// Beyond the time that a drain is to take.
constexpr Duration kDrainSlack = std::chrono::seconds(5);
// Each holds a thread until its end.
constexpr Duration kLongestDrain = std::chrono::hours(1);

v1::DeviceDrain ToProto(const Control::Drained& drained) {
  v1::DeviceDrain proto;
  proto.set_device(drained.device);
  proto.set_drained(drained.drained);
  proto.set_running_loads(static_cast<uint32_t>(drained.running_loads));
  for (const Control::Holder& holder : drained.holders) {
    v1::DeviceHolder& each = *proto.add_holders();
    each.set_arena(holder.arena);
    each.set_session_id(holder.session.value());
    each.set_program(holder.program);
    each.set_instance(holder.instance);
    each.set_model(holder.model);
    each.set_lease_count(holder.leases);
    each.set_bytes(holder.bytes.count());
    each.set_quarantined(holder.quarantined);
  }
  return proto;
}

}  // namespace

grpc::Status AdminService::Cordon(grpc::ServerContext* context, const v1::CordonRequest* request,
                                  v1::CordonResponse* response) {
  const auto cordon = [&]() -> Status {
    TENURE_RETURN_IF_ERROR(gate_.AdmitOperator(*context).status());
    TENURE_ASSIGN_OR_RETURN(const bool changed, control_.SetCordoned(request->device(), true));
    response->set_changed(changed);
    return absl::OkStatus();
  };
  return ToGrpcStatus(cordon());
}

grpc::Status AdminService::Uncordon(grpc::ServerContext* context,
                                    const v1::UncordonRequest* request,
                                    v1::UncordonResponse* response) {
  const auto uncordon = [&]() -> Status {
    TENURE_RETURN_IF_ERROR(gate_.AdmitOperator(*context).status());
    TENURE_ASSIGN_OR_RETURN(const bool changed, control_.SetCordoned(request->device(), false));
    response->set_changed(changed);
    return absl::OkStatus();
  };
  return ToGrpcStatus(uncordon());
}

grpc::Status AdminService::Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                                 v1::DrainResponse* response) {
  const auto drain = [&]() -> Status {
    TENURE_RETURN_IF_ERROR(gate_.AdmitOperator(*context).status());
    const std::optional<Limit::Place> place = drains_.TryEnter();
    if (!place.has_value()) {
      return Error(Reason::kLimit,
                   "no more drains run at a time than " + std::to_string(drains_.most()));
    }
    Duration timeout = control_.drain_timeout();
    if (request->has_timeout()) {
      TENURE_ASSIGN_OR_RETURN(timeout, TimeoutFromProto(request->timeout()));
    }
    timeout = std::min(timeout, kLongestDrain);
    TENURE_ASSIGN_OR_RETURN(const std::vector<Control::Drained> drained,
                            control_.Drain(request->device(), timeout,
                                           gate_.LimitsOf(*context, timeout + kDrainSlack)));
    for (const Control::Drained& each : drained) *response->add_devices() = ToProto(each);
    return absl::OkStatus();
  };
  return ToGrpcStatus(drain());
}

grpc::Status AdminService::Trim(grpc::ServerContext* context, const v1::TrimRequest* request,
                                v1::TrimResponse* response) {
  const auto trim = [&]() -> Status {
    TENURE_RETURN_IF_ERROR(gate_.AdmitOperator(*context).status());
    TENURE_ASSIGN_OR_RETURN(const std::vector<Control::Trimmed> trimmed,
                            control_.Trim(request->device(), request->retained(),
                                          gate_.LimitsOf(*context, kMaxTrimCall)));
    for (const Control::Trimmed& each : trimmed) {
      v1::DeviceTrim& device = *response->add_devices();
      device.set_device(each.device);
      device.set_weights_bytes(each.weights.count());
      device.set_runtime_bytes(each.runtime.count());
    }
    return absl::OkStatus();
  };
  return ToGrpcStatus(trim());
}

grpc::Status AdminService::Reload(grpc::ServerContext* context, const v1::ReloadRequest*,
                                  v1::ReloadResponse* response) {
  const auto reload = [&]() -> Status {
    TENURE_RETURN_IF_ERROR(gate_.AdmitOperator(*context).status());
    TENURE_ASSIGN_OR_RETURN(const std::vector<ConfigChange> changes, control_.Reload());
    for (const ConfigChange& change : changes) {
      v1::ConfigChange& each = *response->add_changes();
      each.set_key(change.key);
      each.set_before(change.before);
      each.set_after(change.after);
    }
    return absl::OkStatus();
  };
  return ToGrpcStatus(reload());
}

}  // namespace tenure
