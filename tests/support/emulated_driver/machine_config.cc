#include "tests/support/emulated_driver/machine_config.h"

#include <charconv>
#include <concepts>
#include <map>
#include <sstream>
#include <string_view>

namespace tenure::emulated {
namespace {

constexpr size_t kUuidBytes = 16;

template <std::integral Number>
bool Read(std::string_view text, Number& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

bool Read(std::string_view text, std::string& into) {
  into = text;
  return true;
}

bool Read(std::string_view text, bool& into) {
  into = text == "1";
  return text == "1" || text == "0";
}

bool Read(std::string_view text, Bytes& into) {
  uint64_t count = 0;
  if (!Read(text, count)) return false;
  into = Bytes(count);
  return true;
}

bool Read(std::string_view text, Duration& into) {
  uint32_t microseconds = 0;
  if (!Read(text, microseconds)) return false;
  into = std::chrono::microseconds(microseconds);
  return true;
}

std::string Write(const std::string& value) { return value; }
std::string Write(bool value) { return value ? "1" : "0"; }
std::string Write(int value) { return std::to_string(value); }
std::string Write(Bytes value) { return std::to_string(value.count()); }
std::string Write(Duration value) {
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(value).count());
}

// Calls `visit` with the name and the field of each key: the one list of keys, for both ways.
template <typename Config, typename Visit>
void VisitMachine(Config& config, const Visit& visit) {
  visit("driver_version", config.driver_version);
  visit("context_cost", config.context_cost);
  visit("copy_delay_us", config.copy_delay);
}

template <typename Config, typename Visit>
void VisitGpu(Config& gpu, const Visit& visit) {
  visit("name", gpu.name);
  visit("uuid", gpu.uuid);
  visit("parent_uuid", gpu.parent_uuid);
  visit("memory", gpu.memory);
  visit("vmm", gpu.vmm);
  visit("posix_fd", gpu.posix_fd);
  visit("gpu_direct_rdma", gpu.gpu_direct_rdma);
  visit("integrated", gpu.integrated);
  visit("compute_major", gpu.compute_major);
  visit("compute_minor", gpu.compute_minor);
  visit("multiprocessors", gpu.multiprocessors);
  visit("pci_bus", gpu.pci_bus);
}

std::string KeyOf(size_t gpu, const char* field) {
  return "device" + std::to_string(gpu) + "." + field;
}

// The lines as a map; nothing if one is no KEY=VALUE or a key comes twice.
std::optional<std::map<std::string, std::string>> Lines(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.front() == '#') continue;
    const size_t equals = line.find('=');
    if (equals == std::string::npos) return std::nullopt;
    if (!values.emplace(line.substr(0, equals), line.substr(equals + 1)).second) {
      return std::nullopt;
    }
  }
  return values;
}

std::string UuidOf(size_t gpu) {
  const std::string position = std::to_string(gpu);
  return "GPU-7e4e5e00-0000-4000-8000-" + std::string(12 - position.size(), '0') + position;
}

}  // namespace

std::string FormatConfig(const MachineConfig& config) {
  std::ostringstream out;
  VisitMachine(config, [&](const char* key, const auto& value) {
    out << key << "=" << Write(value) << "\n";
  });
  out << "devices=" << config.gpus.size() << "\n";
  for (size_t i = 0; i < config.gpus.size(); ++i) {
    VisitGpu(config.gpus[i], [&](const char* key, const auto& value) {
      out << KeyOf(i, key) << "=" << Write(value) << "\n";
    });
  }
  return out.str();
}

std::optional<MachineConfig> ParseConfig(const std::string& text) {
  auto lines = Lines(text);
  if (!lines) return std::nullopt;
  bool understood = true;
  const auto take = [&](const std::string& key, auto& value) {
    const auto found = lines->find(key);
    if (found == lines->end()) return;
    understood &= Read(found->second, value);
    lines->erase(found);
  };
  MachineConfig config;
  VisitMachine(config, take);
  size_t count = 1;
  take("devices", count);
  if (count > kMaxGpus) return std::nullopt;
  config.gpus.assign(count, GpuConfig());
  for (size_t i = 0; i < count; ++i) {
    GpuConfig& gpu = config.gpus[i];
    VisitGpu(gpu, [&](const char* key, auto& value) { take(KeyOf(i, key), value); });
    if (gpu.uuid.empty()) gpu.uuid = UuidOf(i);
    if (gpu.pci_bus == 0) gpu.pci_bus = static_cast<int>(i) + 1;
    understood &= UuidBytes(gpu.uuid).has_value();
    understood &= gpu.parent_uuid.empty() || UuidBytes(gpu.parent_uuid).has_value();
  }
  if (!understood || !lines->empty()) return std::nullopt;
  return config;
}

std::optional<std::string> UuidBytes(const std::string& uuid) {
  if (!uuid.starts_with("GPU-") && !uuid.starts_with("MIG-")) return std::nullopt;
  std::string digits;
  for (const char c : uuid.substr(4)) {
    if (c != '-') digits += c;
  }
  if (digits.size() != 2 * kUuidBytes) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(&digits[i], &digits[i] + 2, byte, 16);
    if (error != std::errc() || end != &digits[i] + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace tenure::emulated
