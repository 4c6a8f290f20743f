#include "server/config_changes.h"

#include <algorithm>
#include <map>
#include <set>

#include "server/config_keys.h"

namespace tenure {
namespace {

template <typename Record>
std::string Written(const ConfigKey<Record>& key, const Record& record) {
  return key.write(record).value_or("nothing");
}

class Comparison {
 public:
  explicit Comparison(const Origins& origins) : origins_(origins) {}

  void Refuse(const std::string& key, const std::string& before, const std::string& after) {
    const auto origin = origins_.find(key);
    const std::string place = origin == origins_.end() ? Origin().Place() : origin->second.Place();
    changes_.refusals.push_back(place + ": " + key + ": cannot change from " + before + " to " +
                                after + " before the daemon is started again");
  }

  void Scalars(const Config& now, const Config& next) {
    for (const ConfigKey<Config>& key : ConfigKeys()) {
      const std::string before = Written(key, now);
      const std::string after = Written(key, next);
      if (before == after) continue;
      if (key.takes_effect == TakesEffect::kAtStart) {
        Refuse(key.name, before, after);
      } else {
        changes_.changes.push_back({key.name, before, after});
      }
    }
  }

  // Lists that stay as they are.
  template <typename Record>
  void Fixed(const std::string& name, const std::vector<Record>& now,
             const std::vector<Record>& next, const std::vector<ConfigKey<Record>>& keys) {
    if (now.size() != next.size()) {
      return Refuse(name, std::to_string(now.size()) + " of them", std::to_string(next.size()));
    }
    for (size_t i = 0; i < now.size(); ++i) {
      const std::string place = name + "[" + std::to_string(i) + "].";
      for (const ConfigKey<Record>& key : keys) {
        const std::string before = Written(key, now[i]);
        const std::string after = Written(key, next[i]);
        if (before != after) Refuse(place + key.name, before, after);
      }
    }
  }

  void Models(const std::vector<WantedModel>& now, const std::vector<WantedModel>& next) {
    const std::map<std::string, std::string> before = ByName(now);
    const std::map<std::string, std::string> after = ByName(next);
    std::set<std::string> names;
    for (const auto* models : {&before, &after}) {
      for (const auto& [name, text] : *models) names.insert(name);
    }
    const auto find = [](const auto& models, const std::string& name) {
      const auto found = models.find(name);
      return found == models.end() ? std::string("none") : found->second;
    };
    for (const std::string& name : names) {
      const std::string was = find(before, name);
      const std::string is = find(after, name);
      if (was != is) changes_.changes.push_back({"models." + name, was, is});
    }
  }

  ConfigChanges Take() { return std::move(changes_); }

 private:
  // The rest of each model, by its name, which may stand in the list once for each device.
  static std::map<std::string, std::string> ByName(const std::vector<WantedModel>& models) {
    std::map<std::string, std::string> texts;
    for (const WantedModel& model : models) {
      std::string& text = texts[model.name];
      for (const ConfigKey<WantedModel>& key : ModelKeys()) {
        const std::optional<std::string> value = key.write(model);
        if (key.name == "name" || !value.has_value() || *value == "false") continue;
        const std::string each = key.name == "path" ? *value : key.name + " " + *value;
        text += (text.empty() ? "" : ", ") + each;
      }
    }
    return texts;
  }

  const Origins& origins_;
  ConfigChanges changes_;
};

}  // namespace

ConfigChanges Compare(const Config& now, const LoadedConfig& next) {
  Comparison comparison(next.origins);
  comparison.Scalars(now, next.config);
  comparison.Fixed("model_roots", now.model_roots, next.config.model_roots, RootKeys());
  comparison.Fixed("devices", now.devices, next.config.devices, DeviceKeys());
  comparison.Models(now.models, next.config.models);
  return comparison.Take();
}

}  // namespace tenure
