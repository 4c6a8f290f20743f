#include "tests/support/emulated_driver/cuda_visible_devices.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string>

namespace tenure::emulated {
namespace {

std::optional<size_t> PositionOf(const MachineConfig& machine, const std::string& name) {
  if (name.starts_with("GPU-") || name.starts_with("MIG-")) {
    std::optional<size_t> fits;
    for (size_t i = 0; i < machine.gpus.size(); ++i) {
      if (!machine.gpus[i].uuid.starts_with(name)) continue;
      if (fits) return std::nullopt;
      fits = i;
    }
    return fits;
  }
  size_t position = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), position);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return position < machine.gpus.size() ? std::optional(position) : std::nullopt;
}

}  // namespace

std::vector<size_t> VisibleGpus(const MachineConfig& machine, const char* variable) {
  std::vector<size_t> visible;
  if (variable == nullptr) {
    for (size_t i = 0; i < machine.gpus.size(); ++i) visible.push_back(i);
    return visible;
  }
  std::istringstream names(variable);
  for (std::string name; std::getline(names, name, ',');) {
    const std::optional<size_t> position = PositionOf(machine, name);
    if (!position) break;
    if (std::find(visible.begin(), visible.end(), *position) != visible.end()) return {};
    visible.push_back(*position);
  }
  return visible;
}

}  // namespace tenure::emulated
