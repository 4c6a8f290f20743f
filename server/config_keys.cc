#include "server/config_keys.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <utility>

namespace tenure {
namespace {

constexpr TakesEffect kAtStart = TakesEffect::kAtStart;
constexpr TakesEffect kOnReload = TakesEffect::kOnReload;

// Which durations a key takes beside positive ones.
struct DurationBounds {
  Duration least = std::chrono::milliseconds(1);
  Duration most = kForever;  // of what is not never
  bool never = false;
};
constexpr DurationBounds kPositive = {};
constexpr DurationBounds kPositiveOrNever = {.never = true};
constexpr DurationBounds kZeroOrMore = {.least = Duration::zero()};
constexpr DurationBounds kZeroToNever = {.least = Duration::zero(), .never = true};
constexpr DurationBounds kLeaseTtl = {.least = std::chrono::milliseconds(100)};
// A daemon that stops waits for the plan that is being made.
constexpr DurationBounds kPlanBudget = {.most = std::chrono::seconds(10)};
constexpr Bytes kMostPlanCache = GiB(64);
constexpr int kMostThreads = 256;
constexpr int kMostWatchers = 10'000;
constexpr int kMostFlightRecords = 1000;

Status Expected(const std::string& what, const std::string& text) {
  return Error(Reason::kInvalidRequest, "expected " + what + ", not \"" + text + "\"");
}

// A key whose value `get` finds in a record: `parse` returns a StatusOr of it, `print` text.
template <typename Record, typename Get, typename Parse, typename Print>
ConfigKey<Record> Key(const std::string& name, Get get, TakesEffect takes_effect, Parse parse,
                      Print print) {
  return {.name = name,
          .takes_effect = takes_effect,
          .read = [get, parse](const std::string& text, Record& record) -> Status {
            auto value = parse(text);
            if (!value.ok()) return value.status();
            get(record) = *std::move(value);
            return absl::OkStatus();
          },
          .write = [get, print](const Record& record) -> std::optional<std::string> {
            return print(get(record));
          }};
}

template <typename Record, typename Get>
ConfigKey<Record> Text(const std::string& name, Get get, TakesEffect takes_effect) {
  return Key<Record>(
      name, get, takes_effect,
      [](const std::string& text) -> StatusOr<std::string> { return text; },
      [](const std::string& value) { return value; });
}

// Left out where it is empty.
template <typename Record, typename Get>
ConfigKey<Record> TextIfAny(const std::string& name, Get get) {
  ConfigKey<Record> key = Text<Record>(name, get, kAtStart);
  key.write = [get](const Record& record) -> std::optional<std::string> {
    const std::string& value = get(record);
    return value.empty() ? std::nullopt : std::optional(value);
  };
  return key;
}

template <typename Record, typename Get>
ConfigKey<Record> Truth(const std::string& name, Get get, TakesEffect takes_effect) {
  return Key<Record>(
      name, get, takes_effect,
      [](const std::string& text) -> StatusOr<bool> {
        if (text == "true" || text == "false") return text == "true";
        return Expected("true or false", text);
      },
      [](bool value) { return std::string(value ? "true" : "false"); });
}

template <typename Record, typename Get>
ConfigKey<Record> Count(const std::string& name, Get get, TakesEffect takes_effect, int least,
                        int most) {
  return Key<Record>(
      name, get, takes_effect,
      [least, most](const std::string& text) -> StatusOr<int> {
        int number = 0;
        const bool digits =
            !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        if (digits && absl::SimpleAtoi(text, &number) && number >= least && number <= most) {
          return number;
        }
        return Expected(absl::StrCat("a whole number from ", least, " to ", most), text);
      },
      [](int value) { return std::to_string(value); });
}

StatusOr<Duration> ParseTime(const std::string& text, DurationBounds bounds) {
  TENURE_ASSIGN_OR_RETURN(const Duration duration, ParseDuration(text));
  if (duration == kForever && !bounds.never) {
    return Error(Reason::kInvalidRequest, "cannot be never");
  }
  if (duration < bounds.least) {
    return Error(Reason::kInvalidRequest,
                 "must be at least " + WriteDuration(bounds.least) + ", not \"" + text + "\"");
  }
  if (duration != kForever && duration > bounds.most) {
    return Error(Reason::kInvalidRequest,
                 "must be at most " + WriteDuration(bounds.most) + ", not \"" + text + "\"");
  }
  return duration;
}

template <typename Record, typename Get>
ConfigKey<Record> Time(const std::string& name, Get get, TakesEffect takes_effect,
                       DurationBounds bounds) {
  return Key<Record>(
      name, get, takes_effect,
      [bounds](const std::string& text) { return ParseTime(text, bounds); },
      [](Duration value) { return WriteDuration(value); });
}

template <typename Record, typename Get, typename Value, size_t kCount>
ConfigKey<Record> OneOf(const std::string& name, Get get, TakesEffect takes_effect,
                        std::array<std::pair<std::string_view, Value>, kCount> choices) {
  return Key<Record>(
      name, get, takes_effect,
      [choices](const std::string& text) -> StatusOr<Value> {
        std::vector<std::string> names;
        for (const auto& [choice, value] : choices) {
          if (choice == text) return value;
          names.emplace_back(choice);
        }
        return Expected("one of " + absl::StrJoin(names, ", "), text);
      },
      [choices](const Value& value) {
        const auto found = std::find_if(choices.begin(), choices.end(),
                                        [&](const auto& choice) { return choice.second == value; });
        return std::string(found->first);
      });
}

template <typename Record, typename Get>
ConfigKey<Record> Numbers(const std::string& name, Get get, TakesEffect takes_effect) {
  ConfigKey<Record> key = Key<Record>(
      name, get, takes_effect,
      [](const std::string& text) -> StatusOr<std::vector<uint32_t>> {
        std::vector<uint32_t> numbers;
        if (text.empty()) return numbers;
        for (const std::string& each : std::vector<std::string>(absl::StrSplit(text, ','))) {
          const std::string trimmed(absl::StripAsciiWhitespace(each));
          if (!absl::SimpleAtoi(trimmed, &numbers.emplace_back())) {
            return Expected("whole numbers", trimmed);
          }
        }
        return numbers;
      },
      [](const std::vector<uint32_t>& numbers) { return absl::StrJoin(numbers, ", "); });
  key.list = true;
  return key;
}

// An amount that may be left open.
template <typename Get>
ConfigKey<DeviceConfig> AmountIfAny(const std::string& name, Get get) {
  return {.name = name,
          .read = [get](const std::string& text, DeviceConfig& device) -> Status {
            TENURE_ASSIGN_OR_RETURN(get(device), ParseAmount(text));
            return absl::OkStatus();
          },
          .write = [get](const DeviceConfig& device) -> std::optional<std::string> {
            const std::optional<Amount>& value = get(device);
            return value.has_value() ? std::optional(WriteAmount(*value)) : std::nullopt;
          }};
}

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

StatusOr<Bytes> ParsePlanCache(const std::string& text) {
  TENURE_ASSIGN_OR_RETURN(const Bytes size, ParseSize(text));
  if (size <= kMostPlanCache) return size;
  return Error(Reason::kInvalidRequest,
               "must be at most " + WriteSize(kMostPlanCache) + ", not \"" + text + "\"");
}

StatusOr<mode_t> ParseMode(const std::string& text) {
  mode_t mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  // Its owner, the daemon, is let in by every one.
  if (whole && mode <= 0777 && (mode & 0600) == 0600) return mode;
  return Expected("an octal mode from 0600 to 0777", text);
}

std::string WriteMode(mode_t mode) {
  std::array<char, 8> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), mode, 8);
  return "0" + std::string(digits.data(), end);
}

#define TENURE_AT(member) \
  [](auto& record) -> auto& { return record.member; }

std::vector<ConfigKey<Config>> MakeConfigKeys() {
  constexpr std::array<std::pair<std::string_view, LogFormat>, 2> kFormats = {
      {{"text", LogFormat::kText}, {"json", LogFormat::kJson}}};
  std::array<std::pair<std::string_view, std::string>, 5> levels;
  constexpr std::array<std::string_view, 5> kLevels = {"trace", "debug", "info", "warn", "error"};
  std::transform(kLevels.begin(), kLevels.end(), levels.begin(),
                 [](std::string_view level) { return std::pair(level, std::string(level)); });
  return {
      Text<Config>("directory", TENURE_AT(directory), kAtStart),
      OneOf<Config>("log.level", TENURE_AT(log.level), kOnReload, levels),
      OneOf<Config>("log.format", TENURE_AT(log.format), kOnReload, kFormats),
      Key<Config>("socket.mode", TENURE_AT(socket.mode), kAtStart, ParseMode, WriteMode),
      Text<Config>("socket.group", TENURE_AT(socket.group), kAtStart),
      Numbers<Config>("admin.uids", TENURE_AT(admin.uids), kOnReload),
      Numbers<Config>("admin.gids", TENURE_AT(admin.gids), kOnReload),
      Truth<Config>("admin.unload", TENURE_AT(admin.unload), kOnReload),
      Text<Config>("metrics.address", TENURE_AT(metrics_address), kAtStart),
      Truth<Config>("metrics.model_bytes", TENURE_AT(metrics_model_bytes), kAtStart),
      Text<Config>("flight_recorder.directory", TENURE_AT(flight_recorder.directory), kAtStart),
      Count<Config>("flight_recorder.kept", TENURE_AT(flight_recorder.kept), kAtStart, 0,
                    kMostFlightRecords),
      Key<Config>("weights.segment_size", TENURE_AT(segment_size), kAtStart, ParseSegmentSize,
                  WriteSize),
      Truth<Config>("weights.single_segment", TENURE_AT(single_segment), kAtStart),
      Time<Config>("weights.retain_ttl", TENURE_AT(retain_ttl), kOnReload, kZeroToNever),
      Time<Config>("weights.cache_ttl", TENURE_AT(cache_ttl), kOnReload, kZeroToNever),
      Time<Config>("weights.recall_wait", TENURE_AT(recall_wait), kOnReload, kPositive),
      Time<Config>("weights.idle_unload_after", TENURE_AT(idle_unload_after), kOnReload,
                   kPositiveOrNever),
      Count<Config>("weights.concurrent_loads", TENURE_AT(concurrent_loads), kAtStart, 1,
                    kMostThreads),
      Key<Config>("runtime.segment_size", TENURE_AT(runtime.segment_size), kAtStart,
                  ParseRuntimeSegmentSize, WriteSize),
      Time<Config>("runtime.pool_ttl", TENURE_AT(runtime.pool_ttl), kOnReload, kZeroToNever),
      Time<Config>("runtime.cache_ttl", TENURE_AT(runtime.cache_ttl), kOnReload, kZeroToNever),
      Time<Config>("runtime.recall_wait", TENURE_AT(runtime.recall_wait), kOnReload, kPositive),
      Time<Config>("planner.budget", TENURE_AT(planner.budget), kOnReload, kPlanBudget),
      Key<Config>("planner.cache", TENURE_AT(planner.cache), kAtStart, ParsePlanCache, WriteSize),
      Count<Config>("planner.threads", TENURE_AT(planner.threads), kAtStart, 1, kMostThreads),
      Time<Config>("leases.ttl", TENURE_AT(lease_ttl), kOnReload, kLeaseTtl),
      Time<Config>("leases.heartbeat_interval", TENURE_AT(heartbeat_interval), kOnReload,
                   kPositive),
      Time<Config>("sessions.death_grace", TENURE_AT(death_grace), kAtStart, kZeroOrMore),
      Time<Config>("drain_timeout", TENURE_AT(drain_timeout), kOnReload, kZeroOrMore),
      Time<Config>("driver_timeout", TENURE_AT(driver_timeout), kAtStart, kPositiveOrNever),
      Count<Config>("copy_threads", TENURE_AT(copy_threads), kAtStart, 1, kMostThreads),
      Count<Config>("max_watchers", TENURE_AT(max_watchers), kOnReload, 0, kMostWatchers),
  };
}

std::vector<ConfigKey<DeviceConfig>> MakeDeviceKeys() {
  constexpr std::array<std::pair<std::string_view, Backend>, 2> kBackends = {
      {{"host", Backend::kHost}, {"cuda", Backend::kCuda}}};
  constexpr std::array<std::pair<std::string_view, HugePages>, 3> kHugePages = {
      {{"off", HugePages::kOff}, {"try", HugePages::kTry}, {"require", HugePages::kRequire}}};
  return {
      Text<DeviceConfig>("name", TENURE_AT(name), kAtStart),
      OneOf<DeviceConfig>("backend", TENURE_AT(backend), kAtStart, kBackends),
      TextIfAny<DeviceConfig>("uuid", TENURE_AT(uuid)),
      AmountIfAny("total", TENURE_AT(total)),
      Key<DeviceConfig>(
          "weights", TENURE_AT(weights), kAtStart,
          [](const std::string& text) { return ParseAmount(text); }, WriteAmount),
      AmountIfAny("runtime", TENURE_AT(runtime)),
      OneOf<DeviceConfig>("huge_pages", TENURE_AT(huge_pages), kAtStart, kHugePages),
  };
}

std::vector<ConfigKey<WantedModel>> MakeModelKeys() {
  ConfigKey<WantedModel> retain_ttl{
      .name = "retain_ttl",
      .read = [](const std::string& text, WantedModel& model) -> Status {
        TENURE_ASSIGN_OR_RETURN(model.retain_ttl, ParseTime(text, kZeroToNever));
        return absl::OkStatus();
      },
      .write = [](const WantedModel& model) -> std::optional<std::string> {
        if (!model.retain_ttl.has_value()) return std::nullopt;
        return WriteDuration(*model.retain_ttl);
      }};
  return {Text<WantedModel>("name", TENURE_AT(name), kOnReload),
          Text<WantedModel>("path", TENURE_AT(path), kOnReload),
          TextIfAny<WantedModel>("device", TENURE_AT(device)),
          Truth<WantedModel>("pin", TENURE_AT(pin), kOnReload), std::move(retain_ttl)};
}

}  // namespace

const std::vector<ConfigKey<Config>>& ConfigKeys() {
  static const std::vector<ConfigKey<Config>> keys = MakeConfigKeys();
  return keys;
}

const std::vector<ConfigKey<RootConfig>>& RootKeys() {
  static const std::vector<ConfigKey<RootConfig>> keys = {
      Text<RootConfig>("name", TENURE_AT(name), kAtStart),
      Text<RootConfig>("path", TENURE_AT(path), kAtStart)};
  return keys;
}

const std::vector<ConfigKey<DeviceConfig>>& DeviceKeys() {
  static const std::vector<ConfigKey<DeviceConfig>> keys = MakeDeviceKeys();
  return keys;
}

const std::vector<ConfigKey<WantedModel>>& ModelKeys() {
  static const std::vector<ConfigKey<WantedModel>> keys = MakeModelKeys();
  return keys;
}

#undef TENURE_AT

const ConfigKey<Config>* FindConfigKey(std::string_view name) {
  const auto& keys = ConfigKeys();
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

std::string EnvironmentName(std::string_view key) {
  std::string name = "TENURED_";
  for (const char c : key) {
    name.push_back(c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  }
  return name;
}

}  // namespace tenure
