#include "server/config_sources.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unistd.h>

#include "server/config_keys.h"

namespace tenure {
namespace {

constexpr std::string_view kPrefix = "TENURED_";
constexpr std::string_view kDirectory = "TENURE_DIR";

// Where Kubernetes has a Service called `tenured`, it sets these in every container beside it.
bool IsServiceLink(std::string_view name) {
  for (const std::string_view link : {"TENURED_PORT", "TENURED_SERVICE_PORT"}) {
    if (name == link || name.starts_with(std::string(link) + "_")) return true;
  }
  return name == "TENURED_SERVICE_HOST";
}

class Gathering {
 public:
  explicit Gathering(LoadedConfig& into) : into_(into) {}

  void Fault(const std::string& what) {
    if (!faults_.empty()) faults_ += "\n";
    faults_ += what;
  }

  void Set(const Origin& origin, const ConfigKey<Config>& key, const std::string& value) {
    const Status read = key.read(value, into_.config);
    if (!read.ok()) {
      return Fault(origin.Place() + ": " + key.name + ": " + std::string(read.message()));
    }
    into_.origins[key.name] = origin;
  }

  void SetFromEnvironment(const std::string& name, const std::string& value) {
    const Origin origin{.kind = Origin::Kind::kEnvironment, .name = name};
    for (const ConfigKey<Config>& key : ConfigKeys()) {
      if (EnvironmentName(key.name) == name) return Set(origin, key, value);
    }
    Fault(origin.Place() + ": names no key that tenured knows");
  }

  void SetFromFlag(const ConfigSources::Flag& flag) {
    const Origin origin{.kind = Origin::Kind::kFlag, .name = flag.name};
    if (const ConfigKey<Config>* key = FindConfigKey(flag.key)) {
      return Set(origin, *key, flag.value);
    }
    const bool list = flag.key == "devices" || flag.key == "models" || flag.key == "model_roots";
    Fault(origin.Place() + ": " + flag.key +
          (list ? ": lists stand in the file" : ": is no key that tenured knows"));
  }

  void AddRoot(const std::string& text) {
    const Origin origin{.kind = Origin::Kind::kFlag, .name = "--model-root"};
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return Fault(origin.Place() + ": expected NAME=PATH, not \"" + text + "\"");
    }
    std::vector<RootConfig>& roots = into_.config.model_roots;
    const RootConfig root{text.substr(0, equals), text.substr(equals + 1)};
    auto same = std::find_if(roots.begin(), roots.end(),
                             [&](const RootConfig& each) { return each.name == root.name; });
    if (same == roots.end()) same = roots.insert(roots.end(), root);
    *same = root;
    const std::string place = "model_roots[" + std::to_string(same - roots.begin()) + "]";
    for (const char* key : {"", ".name", ".path"}) into_.origins[place + key] = origin;
  }

  Status Result() const {
    return faults_.empty() ? absl::OkStatus() : Error(Reason::kInvalidRequest, faults_);
  }

 private:
  LoadedConfig& into_;
  std::string faults_;
};

}  // namespace

std::vector<std::pair<std::string, std::string>> ReadEnvironment() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text(*each);
    const size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    if (equals == std::string_view::npos || (name != kDirectory && !name.starts_with(kPrefix))) {
      continue;
    }
    found.emplace_back(name, text.substr(equals + 1));
  }
  return found;
}

StatusOr<ConfigSources::Flag> ParseSetFlag(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return Error(Reason::kInvalidRequest, "flag --set: expected KEY=VALUE, not \"" + text + "\"");
  }
  return ConfigSources::Flag{"--set", text.substr(0, equals), text.substr(equals + 1)};
}

StatusOr<LoadedConfig> Gather(const ConfigSources& sources) {
  LoadedConfig loaded;
  Gathering gathering(loaded);
  if (!sources.file.empty()) {
    StatusOr<LoadedConfig> file = LoadConfig(sources.file);
    if (file.ok()) {
      loaded = *std::move(file);
    } else {
      gathering.Fault(std::string(file.status().message()));
    }
  }
  for (const auto& [name, value] : sources.environment) {
    if (name == kDirectory && !value.empty()) {
      gathering.Set({.kind = Origin::Kind::kEnvironment, .name = name}, *FindConfigKey("directory"),
                    value);
    }
  }
  for (const auto& [name, value] : sources.environment) {
    if (name.starts_with(kPrefix) && !IsServiceLink(name)) {
      gathering.SetFromEnvironment(name, value);
    }
  }
  for (const ConfigSources::Flag& flag : sources.flags) gathering.SetFromFlag(flag);
  for (const std::string& root : sources.model_roots) gathering.AddRoot(root);
  TENURE_RETURN_IF_ERROR(gathering.Result());
  TENURE_RETURN_IF_ERROR(CheckConfig(loaded.config, loaded.origins));
  return loaded;
}

}  // namespace tenure
