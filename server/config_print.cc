#include "server/config_print.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "server/config_keys.h"

namespace tenure {
namespace {

// As YAML reads it back: in quotes unless nobody could take it for anything but text, a number or a
// truth value.
std::string Quote(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/%-";
  constexpr std::array<std::string_view, 8> kWords = {"on", "off", "yes",  "no",
                                                      "y",  "n",   "null", "-"};
  const bool word = std::find(kWords.begin(), kWords.end(), text) != kWords.end();
  if (!text.empty() && !word && text.find_first_not_of(kPlain) == std::string::npos) return text;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "\"";
}

class Printer {
 public:
  explicit Printer(const Origins& origins) : origins_(origins) {}

  void Value(size_t indent, const std::string& label, const std::string& value,
             const std::string& key) {
    Line(std::string(indent, ' ') + label + ": " + value, key);
  }

  // A section's values stand below its name, which is written once.
  void Key(const Config& config, const ConfigKey<Config>& key) {
    const std::optional<std::string> value = key.write(config);
    const size_t dot = key.name.find('.');
    const std::string section = dot == std::string::npos ? "" : key.name.substr(0, dot);
    if (section != section_ && !section.empty()) text_ += section + ":\n";
    section_ = section;
    const std::string label = section.empty() ? key.name : key.name.substr(dot + 1);
    Value(section.empty() ? 0 : 2, label, key.list ? "[" + *value + "]" : Quote(*value), key.name);
  }

  template <typename Record>
  void List(const std::string& name, const std::vector<Record>& records,
            const std::vector<ConfigKey<Record>>& keys) {
    section_.clear();
    if (records.empty()) return Value(0, name, "[]", name);
    text_ += name + ":\n";
    for (size_t i = 0; i < records.size(); ++i) {
      const std::string place = name + "[" + std::to_string(i) + "].";
      bool first = true;
      for (const ConfigKey<Record>& key : keys) {
        const std::optional<std::string> value = key.write(records[i]);
        if (!value.has_value()) continue;
        Value(2, (first ? "- " : "  ") + key.name, Quote(*value), place + key.name);
        first = false;
      }
    }
  }

  std::string Take() { return std::move(text_); }

 private:
  void Line(const std::string& line, const std::string& key) {
    constexpr size_t kColumn = 40;
    const auto origin = origins_.find(key);
    const std::string from =
        origin == origins_.end() ? Origin().Describe() : origin->second.Describe();
    const size_t gap = line.size() < kColumn ? kColumn - line.size() : 1;
    text_ += line + std::string(gap, ' ') + "# " + from + "\n";
  }

  const Origins& origins_;
  std::string section_;
  std::string text_;
};

}  // namespace

std::string PrintConfig(const LoadedConfig& loaded) {
  Printer printer(loaded.origins);
  for (const ConfigKey<Config>& key : ConfigKeys()) printer.Key(loaded.config, key);
  printer.List("model_roots", loaded.config.model_roots, RootKeys());
  printer.List("devices", loaded.config.devices, DeviceKeys());
  printer.List("models", loaded.config.models, ModelKeys());
  return printer.Take();
}

}  // namespace tenure
