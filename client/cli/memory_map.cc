#include "client/cli/memory_map.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace tenure::cli {
namespace {

using nlohmann::json;

// Of protobuf's JSON: 64-bit numbers are strings there, absent is zero.
uint64_t Number(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return 0;
  if (!found->is_string()) return found->get<uint64_t>();
  const auto text = found->get<std::string>();
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::invalid_argument(std::string(name) + " is no number: " + text);
  }
  return value;
}

std::string Text(const json& object, const char* name) { return object.value(name, std::string()); }

// "12.5s".
Left Span(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::nullopt;
  const double seconds = std::stod(found->get<std::string>());
  // Beyond what nanoseconds can count it is as good as never.
  if (!std::isfinite(seconds) || std::abs(seconds) > 9e9) return std::nullopt;
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

// "HOLDING_LEASED" is "leased".
std::string Word(const json& object, const char* name, std::string_view prefix) {
  std::string word = Text(object, name);
  if (word.starts_with(prefix)) word.erase(0, prefix.size());
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return word;
}

const json& List(const json& object, const char* name) {
  static const json none = json::array();
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

client::ArenaLedger LedgerOf(const json& from) {
  client::ArenaLedger ledger;
  ledger.arena = Text(from, "arena");
  ledger.capacity = Number(from, "capacity");
  ledger.leased = Number(from, "leased");
  ledger.loading = Number(from, "loading");
  ledger.idle = Number(from, "idle");
  ledger.retained = Number(from, "retained");
  ledger.quarantined = Number(from, "quarantined");
  ledger.padding = Number(from, "padding");
  ledger.cached = Number(from, "cached");
  ledger.pooled = Number(from, "pooled");
  ledger.unbacked = Number(from, "unbacked");
  ledger.free = Number(from, "free");
  ledger.stranded = Number(from, "stranded");
  ledger.reserved = Number(from, "reserved");
  ledger.allocated = Number(from, "allocated");
  ledger.requested = Number(from, "requested");
  ledger.largest_free = Number(from, "largest_free");
  ledger.lost = Number(from, "lost");
  ledger.fragmentation_ratio = from.value("fragmentation_ratio", 0.0);
  return ledger;
}

MapRegion RegionOf(const json& from) {
  MapRegion region;
  region.model = Text(from, "model");
  region.revision = Number(from, "revision");
  region.state = Word(from, "holding", "HOLDING_");
  region.layout = Text(from, "architecture_key");
  region.generation = Number(from, "generation");
  region.bytes = Number(from, "bytes");
  region.tensor_bytes = Number(from, "tensor_bytes");
  region.left = Span(from, "expires_in");
  for (const json& each : List(from, "holders")) {
    region.holders.push_back({.session_id = Number(each, "session_id"),
                              .leases = Number(each, "leases"),
                              .quarantined = each.value("quarantined", false)});
    const Left left = Span(each, "lease_expires_in");
    if (left) region.left = region.left ? std::max(*region.left, *left) : *left;
  }
  return region;
}

std::string SegmentState(const json& segment, bool live) {
  if (!live || segment.value("unanswered", false)) return "quarantined";
  const std::string state = Word(segment, "state", "POOL_SEGMENT_STATE_");
  if (state == "coming") return "loading";
  return state == "granted" ? "leased" : "pooled";
}

MapPool PoolOf(const json& from) {
  MapPool pool;
  pool.pool_id = Number(from, "pool_id");
  pool.session_id = Number(from, "session_id");
  pool.live = from.value("live", false);
  pool.left = Span(from, "lease_expires_in");
  pool.segment_bytes = Number(from, "segment_bytes");
  for (const json& each : List(from, "segments")) {
    pool.segments.push_back(
        {.offset = Number(each, "offset"), .state = SegmentState(each, pool.live)});
  }
  for (const json& each : List(from, "buffers")) {
    pool.buffers.push_back({.offset = Number(each, "offset"),
                            .size = Number(each, "size"),
                            .requested = Number(each, "requested"),
                            .kind = Word(each, "kind", "BUFFER_KIND_"),
                            .age = Span(each, "age").value_or(std::chrono::nanoseconds::zero())});
  }
  return pool;
}

MapArena ArenaOf(const json& from) {
  MapArena arena;
  arena.ledger = LedgerOf(from.at("ledger"));
  for (const json& each : List(from, "regions")) arena.regions.push_back(RegionOf(each));
  for (const json& each : List(from, "pools")) arena.pools.push_back(PoolOf(each));
  for (const json& each : List(from, "cached")) {
    arena.cached.push_back({.size = Number(each, "size"), .count = Number(each, "count")});
  }
  return arena;
}

MapDevice DeviceOf(const json& from) {
  MapDevice device;
  device.name = Text(from, "name");
  device.backend = Text(from, "backend");
  device.uuid = Text(from, "uuid");
  device.total_bytes = Number(from, "total_bytes");
  device.foreign_bytes = Number(from, "foreign_bytes");
  device.lost = Text(from, "lost");
  for (const json& each : List(from, "arenas")) device.arenas.push_back(ArenaOf(each));
  const auto counters = from.find("counters");
  if (counters != from.end()) {
    device.counters = {.loads = Number(*counters, "loads"),
                       .copied_bytes = Number(*counters, "copied_bytes"),
                       .leases_granted = Number(*counters, "leases_granted"),
                       .buffers_granted = Number(*counters, "buffers_granted")};
  }
  return device;
}

bool IsMap(const json& object) {
  return object.is_object() && object.contains("schema") && object.contains("boot_id") &&
         object.contains("devices");
}

// The map in `value`, or in what is in it; null if there is none.
const json* Search(const json& value) {
  if (IsMap(value)) return &value;
  if (!value.is_structured()) return nullptr;
  for (const json& each : value) {
    if (const json* const found = Search(each)) return found;
  }
  return nullptr;
}

std::optional<std::string> MapIn(const std::string& text) {
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json* const found = Search(value);
  if (found == nullptr) return std::nullopt;
  return found->dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

uint64_t MapPool::used_bytes() const {
  uint64_t bytes = 0;
  for (const MapBuffer& buffer : buffers) bytes += buffer.size;
  for (const MapSegment& segment : segments) {
    if (segment.state == "leased") bytes += segment_bytes;
  }
  return bytes;
}

std::string MemoryMap::NameOf(uint64_t session_id) const {
  const auto found = sessions.find(session_id);
  return found == sessions.end() ? "a session that ended" : found->second;
}

absl::StatusOr<MemoryMap> ReadMap(const std::string& text) {
  // What is read may be of any shape: the library throws, nothing leaves this function.
  try {
    const json from = json::parse(text);
    if (!IsMap(from)) return absl::InvalidArgumentError("this is no memory map");
    if (Number(from, "schema") > 1) {
      return absl::InvalidArgumentError("the map's schema is newer than this tenurectl: " +
                                        std::to_string(Number(from, "schema")));
    }
    MemoryMap map;
    map.version = Text(from, "version");
    map.boot_id = Text(from, "boot_id");
    map.time = Text(from, "time");
    map.uptime = Span(from, "uptime").value_or(std::chrono::nanoseconds::zero());
    for (const json& each : List(from, "devices")) map.devices.push_back(DeviceOf(each));
    for (const json& each : List(from, "sessions")) {
      map.sessions.emplace(Number(each, "session_id"),
                           Text(each, "program") + "/" + Text(each, "instance"));
    }
    return map;
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(std::string("the memory map cannot be read: ") +
                                      error.what());
  }
}

absl::StatusOr<std::string> FindMap(const std::string& text) {
  if (std::optional<std::string> found = MapIn(text)) return *std::move(found);
  std::optional<std::string> last;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (std::optional<std::string> found = MapIn(line)) last = std::move(found);
  }
  if (last) return *std::move(last);
  return absl::NotFoundError("there is no memory map in it");
}

}  // namespace tenure::cli
