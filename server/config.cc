#include "server/config.h"

#include <absl/strings/str_join.h>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <utility>
#include <yaml-cpp/yaml.h>

#include "core/model/model_table.h"
#include "server/config_keys.h"

namespace tenure {
namespace {

// Walks one YAML document and collects every fault with its place.
class Reader {
 public:
  Reader(std::string file, LoadedConfig& into) : file_(std::move(file)), into_(into) {}

  // The whole configuration.
  void ReadAll(const YAML::Node& document) { ReadSection(document, ""); }

  // A document of models alone.
  void ReadModelsAlone(const YAML::Node& document) {
    ForEachEntry(document, "",
                 [this](const YAML::Node& name, const YAML::Node& value, const std::string& key) {
                   if (key != "models") return Unknown(name, key);
                   ReadModels(value);
                 });
  }

  void Fault(const YAML::Node& node, const std::string& key, const std::string& what) {
    Fault(node.Mark(), key + ": " + what);
  }
  void Fault(const YAML::Mark& mark, const std::string& what) {
    if (!faults_.empty()) faults_ += "\n";
    faults_ += OriginOf(mark).Place() + ": " + what;
  }

  Status Result() const {
    return faults_.empty() ? absl::OkStatus() : Error(Reason::kInvalidRequest, faults_);
  }

 private:
  using OnEntry =
      std::function<void(const YAML::Node& name, const YAML::Node& value, const std::string& key)>;

  Origin OriginOf(const YAML::Mark& mark) const {
    return {.kind = Origin::Kind::kFile, .name = file_, .line = mark.line + 1};
  }

  void Unknown(const YAML::Node& name, const std::string& key) {
    Fault(name, key, "is no key that tenured knows");
  }

  // Of a map; its keys are told with `prefix` before them.
  void ForEachEntry(const YAML::Node& node, const std::string& prefix, const OnEntry& on_entry) {
    if (node.IsNull()) return;
    if (!node.IsMap()) {
      const std::string key = prefix.empty() ? "the file" : prefix.substr(0, prefix.size() - 1);
      return Fault(node, key, "expected keys and values");
    }
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      const std::string key = prefix + name;
      if (seen.insert(name).second) {
        on_entry(entry.first, entry.second, key);
      } else {
        Fault(entry.first, key, "comes twice");
      }
    }
  }

  void ReadSection(const YAML::Node& node, const std::string& prefix) {
    ForEachEntry(node, prefix,
                 [this](const YAML::Node& name, const YAML::Node& value, const std::string& key) {
                   if (const ConfigKey<Config>* known = FindConfigKey(key)) {
                     return ReadValue(*known, value, key, into_.config);
                   }
                   for (const ConfigKey<Config>& each : ConfigKeys()) {
                     if (each.name.starts_with(key + ".")) return ReadSection(value, key + ".");
                   }
                   if (key == "model_roots") return ReadRoots(value);
                   if (key == "devices") return ReadDevices(value);
                   if (key == "models") return ReadModels(value);
                   Unknown(name, key);
                 });
  }

  template <typename Record>
  void ReadValue(const ConfigKey<Record>& key, const YAML::Node& node, const std::string& name,
                 Record& record) {
    std::vector<std::string> parts;
    if (key.list && node.IsSequence()) {
      for (const YAML::Node& element : node) {
        if (!element.IsScalar()) return Fault(element, name, "expected single values");
        parts.push_back(element.Scalar());
      }
    } else if (node.IsScalar()) {
      parts.push_back(node.Scalar());
    } else if (!key.list || !node.IsNull()) {
      return Fault(node, name, key.list ? "expected a list" : "expected a single value");
    }
    const Status read = key.read(absl::StrJoin(parts, ","), record);
    if (!read.ok()) return Fault(node, name, std::string(read.message()));
    into_.origins[name] = OriginOf(node.Mark());
  }

  // Reads each element of a list, and calls `finish` with it.
  template <typename Record, typename Finish>
  void ReadList(const YAML::Node& node, const std::string& name,
                const std::vector<ConfigKey<Record>>& keys, const Record& fresh, Finish finish) {
    if (node.IsNull()) return;
    if (!node.IsSequence()) return Fault(node, name, "expected a list");
    into_.origins[name] = OriginOf(node.Mark());
    size_t index = 0;
    for (const YAML::Node& element : node) {
      const std::string place = name + "[" + std::to_string(index++) + "]";
      into_.origins[place] = OriginOf(element.Mark());
      Record record = fresh;
      ForEachEntry(element, place + ".",
                   [&](const YAML::Node& entry, const YAML::Node& value, const std::string& key) {
                     for (const ConfigKey<Record>& each : keys) {
                       if (place + "." + each.name == key)
                         return ReadValue(each, value, key, record);
                     }
                     Unknown(entry, key);
                   });
      finish(element, place, std::move(record));
    }
  }

  void ReadRoots(const YAML::Node& node) {
    ReadList(node, "model_roots", RootKeys(), RootConfig(),
             [this](const YAML::Node& element, const std::string& place, RootConfig root) {
               if (root.name.empty()) Fault(element, place, "name is missing");
               if (root.path.empty()) Fault(element, place, "path is missing");
               into_.config.model_roots.push_back(std::move(root));
             });
  }

  void ReadDevices(const YAML::Node& node) {
    DeviceConfig fresh;
    fresh.name.clear();
    ReadList(node, "devices", DeviceKeys(), fresh,
             [this](const YAML::Node& element, const std::string&, DeviceConfig device) {
               const bool host = device.backend == Backend::kHost;
               if (device.name.empty()) device.name = host ? "host:0" : "gpu:0";
               device.place = OriginOf(element.Mark()).Place();
               into_.config.devices.push_back(std::move(device));
             });
  }

  void ReadModels(const YAML::Node& node) {
    ReadList(node, "models", ModelKeys(), WantedModel(),
             [this](const YAML::Node& element, const std::string& place, WantedModel model) {
               const Status name = CheckModelName(model.name);
               if (!name.ok()) Fault(element, place, std::string(name.message()));
               if (model.path.empty()) Fault(element, place, "path is missing");
               into_.config.models.push_back(std::move(model));
             });
  }

  const std::string file_;
  LoadedConfig& into_;
  std::string faults_;
};

// Hands the only document of `text`, if there is one, to `read`.
StatusOr<LoadedConfig> ReadDocument(const std::string& text, const std::string& file,
                                    void (Reader::*read)(const YAML::Node& node)) {
  LoadedConfig loaded;
  Reader reader(file, loaded);
  // yaml-cpp reports by exception; none leaves this function.
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      reader.Fault(documents[1].Mark(), "expected one document");
    } else if (!documents.empty()) {
      (reader.*read)(documents[0]);
    }
  } catch (const YAML::Exception& error) {
    reader.Fault(error.mark, error.msg);
  }
  TENURE_RETURN_IF_ERROR(reader.Result());
  return loaded;
}

}  // namespace

std::string Origin::Describe() const {
  switch (kind) {
    case Kind::kDefault:
      return "default";
    case Kind::kFile:
      return "file " + Place();
    case Kind::kEnvironment:
      return "environment " + name;
    case Kind::kFlag:
      return "flag " + name;
  }
  return "";
}

std::string Origin::Place() const {
  return kind == Kind::kFile ? name + ":" + std::to_string(line) : Describe();
}

StatusOr<LoadedConfig> ParseConfig(const std::string& text, const std::string& file) {
  return ReadDocument(text, file, &Reader::ReadAll);
}

StatusOr<std::vector<WantedModel>> ParseModels(const std::string& text, const std::string& file) {
  TENURE_ASSIGN_OR_RETURN(LoadedConfig loaded, ReadDocument(text, file, &Reader::ReadModelsAlone));
  return std::move(loaded.config.models);
}

StatusOr<LoadedConfig> LoadConfig(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in.good() || !text.good()) {
    return Error(Reason::kInvalidRequest, "cannot read the configuration: " + file);
  }
  return ParseConfig(text.str(), file);
}

}  // namespace tenure
