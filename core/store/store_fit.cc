#include "core/store/store.h"

namespace tenure {

StatusOr<std::vector<DeviceFit>> Store::FitModel(const std::string& path,
                                                 const std::string& device) {
  TENURE_ASSIGN_OR_RETURN(const std::vector<DeviceStore*> candidates, Named(device));
  TENURE_ASSIGN_OR_RETURN(const PreparedModel model, Prepare(path));
  std::vector<DeviceFit> fits;
  fits.reserve(candidates.size());
  for (const DeviceStore* candidate : candidates) fits.push_back(candidate->Fit(*model.layout));
  return fits;
}

StatusOr<std::vector<DeviceFit>> Store::FitWeights(Bytes size, const std::string& device) const {
  TENURE_ASSIGN_OR_RETURN(const std::vector<DeviceStore*> candidates, Named(device));
  std::vector<DeviceFit> fits;
  fits.reserve(candidates.size());
  for (const DeviceStore* candidate : candidates) fits.push_back(candidate->Fit(size));
  return fits;
}

StatusOr<std::vector<DeviceFit>> Store::FitPool(const PoolRequest& request,
                                                const std::string& device) {
  TENURE_RETURN_IF_ERROR(CheckWanted(request));
  TENURE_RETURN_IF_ERROR(Named(device).status());
  std::vector<DeviceFit> fits;
  for (const auto& runtime : runtimes_) {
    if (!device.empty() && runtime->device_info().name != device) continue;
    fits.push_back(runtime->Fit(request));
  }
  return fits;
}

}  // namespace tenure
