#include "client/cli/top_screen.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "client/cli/format.h"
#include "client/cli/map_text.h"
#include "client/cli/table.h"

namespace tenure::cli {
namespace {

using Lines = std::vector<std::string>;

struct SessionRow {
  uint64_t session_id = 0;
  uint64_t leased = 0;  // bytes of regions that it has leases on, shared or not
  uint64_t leases = 0;
  uint64_t pool = 0;  // bytes
  uint64_t pool_used = 0;
  uint64_t buffers = 0;
  bool quarantined = false;
};

std::string Print(const char* format, double value) {
  std::array<char, 64> text{};
  snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string FormatCount(double per_second) {
  if (per_second >= 1e6) return Print("%.1fM", per_second / 1e6);
  if (per_second >= 1e3) return Print("%.1fk", per_second / 1e3);
  return Print(per_second < 10 ? "%.1f" : "%.0f", per_second);
}

// The first `width` columns; names may have bytes beyond ASCII, of which a character has several.
std::string Cut(const std::string& line, size_t width) {
  size_t columns = 0;
  size_t at = 0;
  for (; at < line.size(); ++at) {
    const bool continues = (static_cast<unsigned char>(line[at]) & 0xc0) == 0x80;
    if (!continues && ++columns > width) break;
  }
  return line.substr(0, at);
}

const MapDevice* Find(const MemoryMap* map, const std::string& name) {
  if (map == nullptr) return nullptr;
  for (const MapDevice& device : map->devices) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

// Empty if there is nothing to compare with: the first refresh, or another boot of the daemon.
std::string Rates(const MemoryMap& now, const MemoryMap* before, const MapDevice& device) {
  const MapDevice* const was = Find(before, device.name);
  if (was == nullptr || before->boot_id != now.boot_id || now.uptime <= before->uptime) return {};
  const double seconds = std::chrono::duration<double>(now.uptime - before->uptime).count();
  const auto rate = [&](uint64_t MapCounters::*counter) {
    const uint64_t later = device.counters.*counter;
    const uint64_t earlier = was->counters.*counter;
    return later < earlier ? 0.0 : static_cast<double>(later - earlier) / seconds;
  };
  return "   loads " + FormatCount(rate(&MapCounters::loads)) + "/s   leases " +
         FormatCount(rate(&MapCounters::leases_granted)) + "/s   buffers " +
         FormatCount(rate(&MapCounters::buffers_granted)) + "/s   copied " +
         FormatBytes(static_cast<uint64_t>(rate(&MapCounters::copied_bytes))) + "/s";
}

void AddDevices(const MemoryMap& now, const MemoryMap* before, size_t width, Lines& lines) {
  for (const MapDevice& device : now.devices) {
    std::string line = device.name;
    line.append("  ").append(device.backend).append(", ").append(FormatBytes(device.total_bytes));
    line += device.lost.empty() ? Rates(now, before, device) : "   LOST: " + device.lost;
    lines.push_back(std::move(line));
    for (const MapArena& arena : device.arenas) {
      const client::ArenaLedger& ledger = arena.ledger;
      std::string line = "  " + ledger.arena;
      line.resize(11, ' ');
      const size_t room = width > line.size() + 64 ? width - line.size() - 54 : 12;
      line.append(LedgerBar(ledger, std::min<size_t>(room, 100)));
      line.append("  ").append(FormatBytes(ledger.allocated));
      line.append(" of ").append(FormatBytes(ledger.capacity));
      line.append(", free ").append(FormatBytes(ledger.free));
      line.append(", frag ").append(Print("%.3f", ledger.fragmentation_ratio));
      lines.push_back(std::move(line));
    }
  }
}

// Lines of a table; at most `most` rows, of which the last one says how many are missing.
Lines LinesOf(Table& table, size_t rows, size_t most) {
  std::ostringstream out;
  table.Print(out);
  Lines lines;
  std::istringstream in(out.str());
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  if (rows > most) {
    lines.resize(std::max<size_t>(1, most));
    lines.push_back("and " + std::to_string(rows - (lines.size() - 1)) + " more");
  }
  return lines;
}

std::string HoldersText(const MemoryMap& map, const MapRegion& region) {
  std::string text;
  for (const MapHolder& holder : region.holders) {
    if (holder.leases == 0 && !holder.quarantined) continue;
    if (!text.empty()) text += ", ";
    text += map.NameOf(holder.session_id);
    if (holder.leases > 1) text += " x" + std::to_string(holder.leases);
    if (holder.quarantined) text += " (quarantined)";
  }
  return text;
}

Lines Models(const MemoryMap& map, size_t most) {
  struct Row {
    const MapDevice* device;
    const MapRegion* region;
  };
  std::vector<Row> rows;
  for (const MapDevice& device : map.devices) {
    for (const MapArena& arena : device.arenas) {
      for (const MapRegion& region : arena.regions) rows.push_back({&device, &region});
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.region->bytes > b.region->bytes; });
  Table table({{"MODEL"},
               {"DEVICE"},
               {"STATE"},
               {"SIZE", Align::kRight},
               {"LEFT", Align::kRight},
               {"HOLDERS"}});
  for (size_t i = 0; i < std::min(rows.size(), most); ++i) {
    const MapRegion& region = *rows[i].region;
    table.AddRow({region.model + "@" + std::to_string(region.revision), rows[i].device->name,
                  region.state, FormatBytes(region.bytes),
                  region.left ? FormatDuration(*region.left) : "", HoldersText(map, region)});
  }
  return LinesOf(table, rows.size(), most);
}

std::vector<SessionRow> SessionRows(const MemoryMap& map) {
  std::map<uint64_t, SessionRow> rows;
  const auto row = [&](uint64_t id) -> SessionRow& {
    SessionRow& found = rows[id];
    found.session_id = id;
    return found;
  };
  for (const MapDevice& device : map.devices) {
    for (const MapArena& arena : device.arenas) {
      for (const MapRegion& region : arena.regions) {
        for (const MapHolder& holder : region.holders) {
          SessionRow& session = row(holder.session_id);
          session.leases += holder.leases;
          session.quarantined = session.quarantined || holder.quarantined;
          if (holder.leases > 0 || holder.quarantined) session.leased += region.bytes;
        }
      }
      for (const MapPool& pool : arena.pools) {
        SessionRow& session = row(pool.session_id);
        session.pool += pool.segment_bytes * pool.segments.size();
        session.pool_used += pool.used_bytes();
        session.buffers += pool.buffers.size();
        session.quarantined = session.quarantined || !pool.live;
      }
    }
  }
  std::vector<SessionRow> sorted;
  sorted.reserve(rows.size());
  for (const auto& [id, each] : rows) sorted.push_back(each);
  std::stable_sort(sorted.begin(), sorted.end(), [](const SessionRow& a, const SessionRow& b) {
    return a.leased + a.pool > b.leased + b.pool;
  });
  return sorted;
}

Lines Sessions(const MemoryMap& map, size_t most) {
  const std::vector<SessionRow> rows = SessionRows(map);
  Table table({{"SESSION"},
               {"ID", Align::kRight},
               {"LEASED", Align::kRight},
               {"LEASES", Align::kRight},
               {"POOL", Align::kRight},
               {"IN USE", Align::kRight},
               {"BUFFERS", Align::kRight},
               {""}});
  for (size_t i = 0; i < std::min(rows.size(), most); ++i) {
    const SessionRow& row = rows[i];
    table.AddRow({map.NameOf(row.session_id), std::to_string(row.session_id),
                  FormatBytes(row.leased), std::to_string(row.leases), FormatBytes(row.pool),
                  FormatBytes(row.pool_used), std::to_string(row.buffers),
                  row.quarantined ? "quarantined" : ""});
  }
  return LinesOf(table, rows.size(), most);
}

bool IsHeading(const std::string& line) {
  return line.starts_with("MODEL ") || line.starts_with("SESSION ") || line.starts_with("tenured ");
}

}  // namespace

std::string TopScreen(const MemoryMap& now, const MemoryMap* before, const TopOptions& options) {
  const size_t width = options.size.columns;
  Lines lines = {"tenured " + now.version + ", up " + FormatDuration(now.uptime) + ", boot " +
                 now.boot_id.substr(0, 8) + ", " + now.time.substr(0, 19)};
  AddDevices(now, before, width, lines);
  lines.emplace_back();
  // What is left of the screen, but for two headings and what says how many are missing: more of it
  // for the models.
  const size_t used = lines.size() + 5;
  const size_t room = options.size.lines > used + 4 ? options.size.lines - used : 4;
  const size_t every = SIZE_MAX;
  const size_t sessions =
      options.all ? every : std::min(SessionRows(now).size(), std::max<size_t>(2, room / 3));
  const Lines models = Models(now, options.all ? every : room - sessions);
  lines.insert(lines.end(), models.begin(), models.end());
  lines.emplace_back();
  const Lines more = Sessions(now, sessions);
  lines.insert(lines.end(), more.begin(), more.end());
  if (!options.all && lines.size() > options.size.lines) lines.resize(options.size.lines);

  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string line = Cut(lines[i], width);
    const bool strong = options.color && IsHeading(line);
    text += strong ? "\033[1m" + line + "\033[0m" : line;
    // After the last line of a full screen it would scroll.
    if (options.all || i + 1 < lines.size()) text += '\n';
  }
  return text;
}

}  // namespace tenure::cli
