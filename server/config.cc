#include "server/config.h"

#include <array>
#include <bit>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <utility>
#include <yaml-cpp/yaml.h>

#include "core/model/model_table.h"

namespace tenure {
namespace {

// Which durations a key takes beside positive ones.
struct DurationBounds {
  Duration least = std::chrono::milliseconds(1);
  bool never = false;
};

// Walks one YAML document and collects every fault with its place.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  using Read = std::function<void(const YAML::Node&, const std::string& key)>;
  using Keys = std::vector<std::pair<std::string_view, Read>>;

  // Calls the reader of each key that the map has.
  void Map(const YAML::Node& node, const std::string& path, const Keys& keys) {
    if (node.IsNull()) return;
    if (!node.IsMap())
      return Fault(node, path.empty() ? "the file" : path, "expected keys and values");
    const std::string prefix = path.empty() ? "" : path + ".";
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      const std::string key = prefix + name;
      if (!seen.insert(name).second) {
        Fault(entry.first, key, "comes twice");
        continue;
      }
      bool known = false;
      for (const auto& [expected, read] : keys) {
        if (expected != name) continue;
        known = true;
        read(entry.second, key);
      }
      if (!known) Fault(entry.first, key, "is no key that tenured knows");
    }
  }

  Read Section(const Keys& keys) {
    return [this, keys](const YAML::Node& node, const std::string& key) { Map(node, key, keys); };
  }

  // Calls `item` for each element of a list.
  Read List(std::function<void(const YAML::Node&, const std::string& key)> item) {
    return [this, item = std::move(item)](const YAML::Node& node, const std::string& key) {
      if (node.IsNull()) return;
      if (!node.IsSequence()) return Fault(node, key, "expected a list");
      size_t index = 0;
      for (const YAML::Node& element : node)
        item(element, key + "[" + std::to_string(index++) + "]");
    };
  }

  // A scalar, converted by `parse`, which returns a StatusOr.
  template <typename Value, typename Parse>
  Read Scalar(Value& into, Parse parse) {
    return [this, &into, parse](const YAML::Node& node, const std::string& key) {
      if (!node.IsScalar()) return Fault(node, key, "expected a single value");
      auto value = parse(node.Scalar());
      if (!value.ok()) return Fault(node, key, std::string(value.status().message()));
      into = *std::move(value);
    };
  }

  Read Text(std::string& into) {
    return Scalar(into, [](const std::string& text) -> StatusOr<std::string> { return text; });
  }

  Read Count(int& into, int least, int most) {
    return Scalar(into, [least, most](const std::string& text) -> StatusOr<int> {
      const StatusOr<Bytes> number = ParseSize(text);
      const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
      if (digits && number.ok() && number->count() >= static_cast<uint64_t>(least) &&
          number->count() <= static_cast<uint64_t>(most)) {
        return static_cast<int>(number->count());
      }
      return Error(Reason::kInvalidRequest, "expected a whole number from " +
                                                std::to_string(least) + " to " +
                                                std::to_string(most) + ", not \"" + text + "\"");
    });
  }

  Read Time(Duration& into, DurationBounds bounds) {
    return Scalar(into, [bounds](const std::string& text) -> StatusOr<Duration> {
      TENURE_ASSIGN_OR_RETURN(const Duration duration, ParseDuration(text));
      if (duration == kForever && !bounds.never) {
        return Error(Reason::kInvalidRequest, "cannot be never");
      }
      if (duration < bounds.least) {
        const auto least =
            std::chrono::duration_cast<std::chrono::milliseconds>(bounds.least).count();
        return Error(Reason::kInvalidRequest,
                     "must be at least " + std::to_string(least) + "ms, not \"" + text + "\"");
      }
      return duration;
    });
  }

  template <typename Value, size_t kCount>
  Read OneOf(Value& into, std::array<std::pair<std::string_view, Value>, kCount> choices) {
    return Scalar(into, [choices](const std::string& text) -> StatusOr<Value> {
      std::string names;
      for (const auto& [name, value] : choices) {
        if (name == text) return value;
        names += (names.empty() ? "" : ", ") + std::string(name);
      }
      return Error(Reason::kInvalidRequest, "expected one of " + names + ", not \"" + text + "\"");
    });
  }

  void Fault(const YAML::Node& node, const std::string& key, const std::string& what) {
    Fault(node.Mark(), key + ": " + what);
  }
  void Fault(const YAML::Mark& mark, const std::string& what) {
    if (!faults_.empty()) faults_ += "\n";
    faults_ += file_ + ":" + std::to_string(mark.line + 1) + ": " + what;
  }

  Status Result() const {
    return faults_.empty() ? absl::OkStatus() : Error(Reason::kInvalidRequest, faults_);
  }

 private:
  const std::string file_;
  std::string faults_;
};

StatusOr<Bytes> ParseSegmentSize(const std::string& text) {
  TENURE_ASSIGN_OR_RETURN(const Bytes size, ParseSize(text));
  if (size.zero() || !(size % kGranule).zero()) {
    return Error(Reason::kInvalidRequest, "must be a multiple of 2MiB, not \"" + text + "\"");
  }
  return size;
}

StatusOr<Bytes> ParseRuntimeSegmentSize(const std::string& text) {
  TENURE_ASSIGN_OR_RETURN(const Bytes size, ParseSize(text));
  if (size < kGranule || !std::has_single_bit(size.count())) {
    return Error(Reason::kInvalidRequest,
                 "must be 2MiB times a power of two, not \"" + text + "\"");
  }
  return size;
}

StatusOr<std::optional<Bytes>> ParseTotal(const std::string& text) {
  TENURE_ASSIGN_OR_RETURN(const Bytes size, ParseSize(text));
  if (size < kGranule) {
    return Error(Reason::kInvalidRequest, "must be at least 2MiB, not \"" + text + "\"");
  }
  return std::optional<Bytes>(size);
}

StatusOr<std::string> ParseLevel(const std::string& text) {
  for (const char* level : {"trace", "debug", "info", "warn", "error"}) {
    if (text == level) return text;
  }
  return Error(Reason::kInvalidRequest,
               "expected trace, debug, info, warn or error, not \"" + text + "\"");
}

void ReadRoot(Reader& reader, const YAML::Node& node, const std::string& key, Config& config) {
  RootConfig root;
  reader.Map(node, key, {{"name", reader.Text(root.name)}, {"path", reader.Text(root.path)}});
  if (root.name.empty()) reader.Fault(node, key, "name is missing");
  if (root.path.empty()) reader.Fault(node, key, "path is missing");
  config.model_roots.push_back(std::move(root));
}

StatusOr<std::optional<SizeOrPercent>> ParseRuntimeShare(const std::string& text) {
  TENURE_ASSIGN_OR_RETURN(const SizeOrPercent share, ParseSizeOrPercent(text));
  return std::optional<SizeOrPercent>(share);
}

void ReadDevice(Reader& reader, const YAML::Node& node, const std::string& key, Config& config) {
  DeviceConfig device;
  device.name.clear();
  reader.Map(node, key,
             {{"name", reader.Text(device.name)},
              {"backend", reader.OneOf(device.backend,
                                       std::array<std::pair<std::string_view, Backend>, 2>{
                                           {{"host", Backend::kHost}, {"cuda", Backend::kCuda}}})},
              {"uuid", reader.Text(device.uuid)},
              {"total", reader.Scalar(device.total, ParseTotal)},
              {"weights", reader.Scalar(device.weights, ParseSizeOrPercent)},
              {"runtime", reader.Scalar(device.runtime, ParseRuntimeShare)},
              {"huge_pages", reader.OneOf(device.huge_pages,
                                          std::array<std::pair<std::string_view, HugePages>, 3>{
                                              {{"off", HugePages::kOff},
                                               {"try", HugePages::kTry},
                                               {"require", HugePages::kRequire}}})}});
  if (device.name.empty()) device.name = device.backend == Backend::kHost ? "host:0" : "gpu:0";
  config.devices.push_back(std::move(device));
}

// Durations that may be zero and may be never.
constexpr DurationBounds kZeroToNever = {.least = Duration::zero(), .never = true};

StatusOr<bool> ParseBool(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  return Error(Reason::kInvalidRequest, "expected true or false, not \"" + text + "\"");
}

void ReadModel(Reader& reader, const YAML::Node& node, const std::string& key,
               std::vector<WantedModel>& models) {
  WantedModel model;
  Duration retain_ttl = Duration::min();
  reader.Map(node, key,
             {{"name", reader.Text(model.name)},
              {"path", reader.Text(model.path)},
              {"device", reader.Text(model.device)},
              {"pin", reader.Scalar(model.pin, ParseBool)},
              {"retain_ttl", reader.Time(retain_ttl, kZeroToNever)}});
  const Status name = CheckModelName(model.name);
  if (!name.ok()) reader.Fault(node, key, std::string(name.message()));
  if (model.path.empty()) reader.Fault(node, key, "path is missing");
  if (retain_ttl != Duration::min()) model.retain_ttl = retain_ttl;
  models.push_back(std::move(model));
}

Reader::Read ReadModels(Reader& reader, std::vector<WantedModel>& models) {
  return reader.List([&reader, &models](const YAML::Node& node, const std::string& key) {
    ReadModel(reader, node, key, models);
  });
}

void ReadAll(Reader& reader, const YAML::Node& document, Config& config) {
  constexpr DurationBounds kPositive = {};
  constexpr DurationBounds kPositiveOrNever = {.never = true};
  constexpr DurationBounds kZeroOrMore = {.least = Duration::zero()};
  constexpr DurationBounds kLeaseTtl = {.least = std::chrono::milliseconds(100)};
  constexpr int kMostThreads = 256;
  constexpr int kMostWatchers = 10'000;

  reader.Map(
      document, "",
      {{"directory", reader.Text(config.directory)},
       {"log", reader.Section(
                   {{"level", reader.Scalar(config.log.level, ParseLevel)},
                    {"format", reader.OneOf(config.log.format,
                                            std::array<std::pair<std::string_view, LogFormat>, 2>{
                                                {{"text", LogFormat::kText},
                                                 {"json", LogFormat::kJson}}})}})},
       {"metrics", reader.Section({{"address", reader.Text(config.metrics_address)}})},
       {"model_roots", reader.List([&](const YAML::Node& node, const std::string& key) {
          ReadRoot(reader, node, key, config);
        })},
       {"devices", reader.List([&](const YAML::Node& node, const std::string& key) {
          ReadDevice(reader, node, key, config);
        })},
       {"models", ReadModels(reader, config.models)},
       {"weights",
        reader.Section(
            {{"segment_size", reader.Scalar(config.segment_size, ParseSegmentSize)},
             {"single_segment", reader.Scalar(config.single_segment, ParseBool)},
             {"retain_ttl", reader.Time(config.retain_ttl, kZeroToNever)},
             {"cache_ttl", reader.Time(config.cache_ttl, kZeroToNever)},
             {"recall_wait", reader.Time(config.recall_wait, kPositive)},
             {"idle_unload_after", reader.Time(config.idle_unload_after, kPositiveOrNever)},
             {"concurrent_loads", reader.Count(config.concurrent_loads, 1, kMostThreads)}})},
       {"runtime",
        reader.Section(
            {{"segment_size", reader.Scalar(config.runtime.segment_size, ParseRuntimeSegmentSize)},
             {"pool_ttl", reader.Time(config.runtime.pool_ttl, kZeroToNever)},
             {"cache_ttl", reader.Time(config.runtime.cache_ttl, kZeroToNever)},
             {"recall_wait", reader.Time(config.runtime.recall_wait, kPositive)}})},
       {"leases", reader.Section(
                      {{"ttl", reader.Time(config.lease_ttl, kLeaseTtl)},
                       {"heartbeat_interval", reader.Time(config.heartbeat_interval, kPositive)}})},
       {"sessions",
        reader.Section({{"death_grace", reader.Time(config.death_grace, kZeroOrMore)}})},
       {"drain_timeout", reader.Time(config.drain_timeout, kZeroOrMore)},
       {"driver_timeout", reader.Time(config.driver_timeout, kPositiveOrNever)},
       {"copy_threads", reader.Count(config.copy_threads, 1, kMostThreads)},
       {"max_watchers", reader.Count(config.max_watchers, 0, kMostWatchers)}});
}

// Hands the only document of `text`, if there is one, to `read`.
Status ReadDocument(const std::string& text, const std::string& file,
                    const std::function<void(Reader& reader, const YAML::Node& node)>& read) {
  Reader reader(file);
  // yaml-cpp reports by exception; none leaves this function.
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      reader.Fault(documents[1].Mark(), "expected one document");
    } else if (!documents.empty()) {
      read(reader, documents[0]);
    }
  } catch (const YAML::Exception& error) {
    reader.Fault(error.mark, error.msg);
  }
  return reader.Result();
}

}  // namespace

StatusOr<Config> ParseConfig(const std::string& text, const std::string& file) {
  Config config;
  TENURE_RETURN_IF_ERROR(ReadDocument(
      text, file,
      [&config](Reader& reader, const YAML::Node& node) { ReadAll(reader, node, config); }));
  return config;
}

StatusOr<std::vector<WantedModel>> ParseModels(const std::string& text, const std::string& file) {
  std::vector<WantedModel> models;
  TENURE_RETURN_IF_ERROR(
      ReadDocument(text, file, [&models](Reader& reader, const YAML::Node& node) {
        reader.Map(node, "", {{"models", ReadModels(reader, models)}});
      }));
  return models;
}

StatusOr<Config> LoadConfig(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in.good() || !text.good()) {
    return Error(Reason::kInvalidRequest, "cannot read the configuration: " + file);
  }
  return ParseConfig(text.str(), file);
}

}  // namespace tenure
