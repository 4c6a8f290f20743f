#include <utility>

#include "client/cpp/call_admin.h"
#include "client/cpp/duration.h"
#include "tenure/client.h"

// What operators do.

namespace tenure::client {
namespace {

// Beyond the time that clients have to let go.
constexpr std::chrono::nanoseconds kDrainSlack = std::chrono::seconds(10);
// As long as a daemon is ever configured to wait, for a drain that does not say.
constexpr std::chrono::nanoseconds kLongestDrain = std::chrono::hours(1);

DeviceDrain ToValue(const v1::DeviceDrain& drain) {
  DeviceDrain value{.device = drain.device(),
                    .drained = drain.drained(),
                    .running_loads = drain.running_loads(),
                    .holders = {}};
  for (const v1::DeviceHolder& holder : drain.holders()) {
    value.holders.push_back({.arena = holder.arena(),
                             .session_id = holder.session_id(),
                             .program = holder.program(),
                             .instance = holder.instance(),
                             .model = holder.model(),
                             .lease_count = holder.lease_count(),
                             .bytes = holder.bytes(),
                             .quarantined = holder.quarantined()});
  }
  return value;
}

}  // namespace

absl::StatusOr<bool> Client::Cordon(const std::string& device, const CallOptions& options) const {
  v1::CordonRequest request;
  request.set_device(device);
  v1::CordonResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(CallAdmin(*reconnector_, timeout_, options,
                                          &v1::AdminService::Stub::Cordon, request, response));
  return response.changed();
}

absl::StatusOr<bool> Client::Uncordon(const std::string& device, const CallOptions& options) const {
  v1::UncordonRequest request;
  request.set_device(device);
  v1::UncordonResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(CallAdmin(*reconnector_, timeout_, options,
                                          &v1::AdminService::Stub::Uncordon, request, response));
  return response.changed();
}

absl::StatusOr<std::vector<DeviceDrain>> Client::Drain(const DrainRequest& drain,
                                                       const CallOptions& options) const {
  v1::DrainRequest request;
  request.set_device(drain.device);
  if (drain.timeout.has_value()) ToProto(*drain.timeout, request.mutable_timeout());
  v1::DrainResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(
      CallAdmin(*reconnector_, drain.timeout.value_or(kLongestDrain) + kDrainSlack, options,
                &v1::AdminService::Stub::Drain, request, response));
  std::vector<DeviceDrain> devices;
  for (const v1::DeviceDrain& each : response.devices()) devices.push_back(ToValue(each));
  return devices;
}

absl::StatusOr<std::vector<DeviceTrim>> Client::Trim(const TrimRequest& trim,
                                                     const CallOptions& options) const {
  v1::TrimRequest request;
  request.set_device(trim.device);
  request.set_retained(trim.retained);
  v1::TrimResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(CallAdmin(*reconnector_, timeout_, options,
                                          &v1::AdminService::Stub::Trim, request, response));
  std::vector<DeviceTrim> devices;
  for (const v1::DeviceTrim& each : response.devices()) {
    devices.push_back({each.device(), each.weights_bytes(), each.runtime_bytes()});
  }
  return devices;
}

absl::StatusOr<std::vector<ConfigChange>> Client::Reload(const CallOptions& options) const {
  v1::ReloadResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(CallAdmin(*reconnector_, timeout_, options,
                                          &v1::AdminService::Stub::Reload, v1::ReloadRequest(),
                                          response));
  std::vector<ConfigChange> changes;
  for (const v1::ConfigChange& each : response.changes()) {
    changes.push_back({each.key(), each.before(), each.after()});
  }
  return changes;
}

}  // namespace tenure::client
