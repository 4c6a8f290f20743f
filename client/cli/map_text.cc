#include "client/cli/map_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <utility>

#include "client/cli/format.h"
#include "client/cli/table.h"

namespace tenure::cli {
namespace {

struct State {
  std::string_view name;
  char character;
  uint64_t client::ArenaLedger::*bytes;
};

// In the order in which bars are drawn.
constexpr std::array<State, 10> kStates = {{
    {"leased", '#', &client::ArenaLedger::leased},
    {"loading", '+', &client::ArenaLedger::loading},
    {"idle", 'o', &client::ArenaLedger::idle},
    {"quarantined", '!', &client::ArenaLedger::quarantined},
    {"padding", ':', &client::ArenaLedger::padding},
    {"retained", '-', &client::ArenaLedger::retained},
    {"pooled", '~', &client::ArenaLedger::pooled},
    {"cached", '=', &client::ArenaLedger::cached},
    {"stranded", 'x', &client::ArenaLedger::stranded},
    {"unbacked", '.', &client::ArenaLedger::unbacked},
}};

constexpr size_t kOffsetWidth = 11;
constexpr size_t kMostLines = 12;
constexpr uint64_t kCharactersEach = 8;

// Bytes side by side that are alike.
struct Stretch {
  uint64_t bytes = 0;
  char character = '.';
  std::string name;  // of a region
};

void AddPool(const MapPool& pool, std::vector<Stretch>& stretches) {
  const auto add = [&](uint64_t bytes, char character) {
    if (bytes > 0) stretches.push_back({.bytes = bytes, .character = character, .name = {}});
  };
  auto buffer = pool.buffers.begin();
  for (const MapSegment& segment : pool.segments) {
    const uint64_t end = segment.offset + pool.segment_bytes;
    if (segment.state != "pooled") {
      add(pool.segment_bytes, MapCharacter(segment.state));
      continue;
    }
    uint64_t at = segment.offset;
    while (buffer != pool.buffers.end() && buffer->offset + buffer->size <= at) ++buffer;
    for (auto each = buffer; each != pool.buffers.end() && each->offset < end; ++each) {
      const uint64_t begin = std::max(at, each->offset);
      const uint64_t stop = std::min(end, each->offset + each->size);
      add(begin - at, MapCharacter("pooled"));
      add(stop - begin, MapCharacter("leased"));
      at = stop;
    }
    add(end - at, MapCharacter("pooled"));
  }
}

std::vector<Stretch> StretchesOf(const MapArena& arena) {
  std::vector<Stretch> stretches;
  for (const MapRegion& region : arena.regions) {
    stretches.push_back({region.bytes, MapCharacter(region.state), region.model});
  }
  for (const MapPool& pool : arena.pools) AddPool(pool, stretches);
  for (const std::string_view state : {"cached", "stranded", "unbacked"}) {
    for (const State& each : kStates) {
      if (each.name == state) {
        stretches.push_back({arena.ledger.*each.bytes, each.character, ""});
      }
    }
  }
  return stretches;
}

uint64_t Smallest(const MapArena& arena) {
  uint64_t smallest = arena.ledger.capacity;
  for (const MapRegion& region : arena.regions) smallest = std::min(smallest, region.bytes);
  for (const MapPool& pool : arena.pools) {
    if (!pool.segments.empty()) smallest = std::min(smallest, pool.segment_bytes);
  }
  return std::max<uint64_t>(1, smallest);
}

// A power of two, so that lines begin at round offsets; small enough to give the smallest part
// kCharactersEach, as far as kMostLines allow.
uint64_t BytesPerCharacter(const MapArena& arena, uint64_t columns) {
  const uint64_t capacity = arena.ledger.capacity;
  uint64_t bytes = 1;
  while (bytes * columns < capacity) bytes *= 2;
  const auto fits = [&](uint64_t unit) { return unit * columns * kMostLines >= capacity; };
  while (bytes > 1 && bytes * kCharactersEach > Smallest(arena) && fits(bytes / 2)) bytes /= 2;
  return bytes;
}

// `count` characters of what begins here, in brackets and named where there is room.
std::string Cells(const Stretch& stretch, uint64_t count) {
  std::string cells(count, stretch.character);
  if (stretch.name.empty() || count < 3) return cells;
  cells.front() = '[';
  cells.back() = ']';
  if (stretch.name.size() + 4 <= count)
    cells.replace(1, stretch.name.size() + 1, stretch.name + " ");
  return cells;
}

std::string Pad(std::string text, size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

std::string Holders(const MemoryMap& map, const MapRegion& region) {
  std::string text;
  size_t mapped = 0;
  for (const MapHolder& holder : region.holders) {
    if (holder.leases == 0 && !holder.quarantined) {
      ++mapped;
      continue;
    }
    if (!text.empty()) text += ", ";
    text += map.NameOf(holder.session_id) + " (" +
            (holder.quarantined ? "quarantined" : std::to_string(holder.leases)) + ")";
  }
  if (mapped > 0) text += (text.empty() ? "" : ", ") + std::to_string(mapped) + " mapped";
  return text;
}

std::string LeftText(const Left& left) { return left ? FormatDuration(*left) : std::string(); }

// The `most` largest, by `bytes`; of equals the first.
template <typename T, typename Bytes>
std::vector<const T*> Largest(const std::vector<T>& all, size_t most, Bytes bytes) {
  std::vector<const T*> sorted;
  for (const T& each : all) sorted.push_back(&each);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const T* a, const T* b) { return bytes(*a) > bytes(*b); });
  if (sorted.size() > most) sorted.resize(most);
  return sorted;
}

void PrintRegions(std::ostream& out, const MemoryMap& map, const MapArena& arena, size_t rows) {
  if (arena.regions.empty()) return;
  Table table({{"MODEL"},
               {"STATE"},
               {"SIZE", Align::kRight},
               {"LAYOUT"},
               {"GENERATION", Align::kRight},
               {"LEFT", Align::kRight},
               {"HOLDERS"}});
  const auto bytes = [](const MapRegion& region) { return region.bytes; };
  for (const MapRegion* const region : Largest(arena.regions, rows, bytes)) {
    table.AddRow({region->model + "@" + std::to_string(region->revision), region->state,
                  FormatBytes(region->bytes), region->layout.substr(0, 8),
                  std::to_string(region->generation), LeftText(region->left),
                  Holders(map, *region)});
  }
  out << '\n';
  table.Print(out);
  if (arena.regions.size() > rows) {
    out << "and " << arena.regions.size() - rows << " smaller ones; --rows shows more\n";
  }
}

void PrintPools(std::ostream& out, const MemoryMap& map, const MapArena& arena, size_t rows) {
  if (arena.pools.empty()) return;
  Table table({{"POOL OF"},
               {"SIZE", Align::kRight},
               {"IN USE", Align::kRight},
               {"SEGMENTS", Align::kRight},
               {"BUFFERS", Align::kRight},
               {"OLDEST", Align::kRight},
               {"LEASE", Align::kRight}});
  const auto bytes = [](const MapPool& pool) { return pool.segment_bytes * pool.segments.size(); };
  for (const MapPool* const pool : Largest(arena.pools, rows, bytes)) {
    std::chrono::nanoseconds oldest{};
    for (const MapBuffer& buffer : pool->buffers) oldest = std::max(oldest, buffer.age);
    table.AddRow({map.NameOf(pool->session_id), FormatBytes(bytes(*pool)),
                  FormatBytes(pool->used_bytes()), std::to_string(pool->segments.size()),
                  std::to_string(pool->buffers.size()),
                  pool->buffers.empty() ? "" : FormatDuration(oldest),
                  pool->live ? LeftText(pool->left) : "over"});
  }
  out << '\n';
  table.Print(out);
  if (arena.pools.size() > rows) {
    out << "and " << arena.pools.size() - rows << " smaller ones; --rows shows more\n";
  }
}

std::string Legend(const MemoryMap& map) {
  std::string text;
  for (const State& state : kStates) {
    uint64_t bytes = 0;
    for (const MapDevice& device : map.devices) {
      for (const MapArena& arena : device.arenas) bytes += arena.ledger.*state.bytes;
    }
    // Padding is drawn with what it belongs to.
    if (bytes == 0 || state.name == "padding") continue;
    if (!text.empty()) text += "   ";
    text +=
        std::string(1, state.character) + " " + std::string(state.name) + " " + FormatBytes(bytes);
  }
  return text;
}

}  // namespace

char MapCharacter(std::string_view state) {
  for (const State& each : kStates) {
    if (each.name == state) return each.character;
  }
  return '?';
}

std::string LedgerBar(const client::ArenaLedger& ledger, size_t width) {
  std::string bar;
  uint64_t sum = 0;
  for (const State& state : kStates) {
    sum += ledger.*state.bytes;
    if (ledger.capacity == 0) break;
    const double part = static_cast<double>(sum) / static_cast<double>(ledger.capacity);
    const auto end = static_cast<size_t>(std::lround(part * static_cast<double>(width)));
    if (end > bar.size()) bar.resize(std::min(end, width), state.character);
  }
  bar.resize(width, ' ');
  return "[" + bar + "]";
}

std::string DrawArena(const MapArena& arena, size_t width) {
  const uint64_t columns = std::max<size_t>(width, kOffsetWidth + 18) - kOffsetWidth - 2;
  const uint64_t line = columns / 16 * 16;
  const uint64_t unit = BytesPerCharacter(arena, line);
  std::string cells;
  uint64_t end = 0;
  size_t unseen = 0;
  for (const Stretch& stretch : StretchesOf(arena)) {
    end += stretch.bytes;
    const uint64_t until = (end + unit / 2) / unit;
    if (until > cells.size()) {
      cells += Cells(stretch, until - cells.size());
    } else if (stretch.bytes > 0 && !stretch.name.empty()) {
      ++unseen;
    }
  }
  std::string text = std::string(kOffsetWidth, ' ') + "one character is " + FormatBytes(unit);
  if (unseen > 0) text += "; " + std::to_string(unseen) + " models are too small to be seen";
  text += '\n';
  for (size_t at = 0; at < cells.size(); at += line) {
    text += Pad(at == 0 ? "0" : FormatBytes(at * unit), kOffsetWidth - 1) + " " +
            cells.substr(at, line) + "\n";
  }
  return text;
}

std::string DrawMap(const MemoryMap& map, size_t width, size_t rows) {
  std::ostringstream out;
  out << "tenured " << map.version << ", boot " << map.boot_id.substr(0, 8) << ", up "
      << FormatDuration(map.uptime) << ", " << map.time << '\n'
      << Legend(map) << '\n';
  for (const MapDevice& device : map.devices) {
    out << '\n'
        << device.name << "  " << device.backend << ", " << FormatBytes(device.total_bytes)
        << " in all, " << device.uuid << '\n';
    if (device.foreign_bytes > 0) {
      out << "used by others, as the driver says: " << FormatBytes(device.foreign_bytes) << '\n';
    }
    if (!device.lost.empty()) out << "does not serve any more: " << device.lost << '\n';
    for (const MapArena& arena : device.arenas) {
      std::array<char, 32> fragmentation{};
      snprintf(fragmentation.data(), fragmentation.size(), "%.3f",
               arena.ledger.fragmentation_ratio);
      out << '\n'
          << arena.ledger.arena << ": " << FormatBytes(arena.ledger.allocated) << " of "
          << FormatBytes(arena.ledger.capacity) << " allocated, " << FormatBytes(arena.ledger.free)
          << " free, fragmentation " << fragmentation.data() << '\n'
          << DrawArena(arena, width);
      PrintRegions(out, map, arena, rows);
      PrintPools(out, map, arena, rows);
    }
  }
  return out.str();
}

}  // namespace tenure::cli
