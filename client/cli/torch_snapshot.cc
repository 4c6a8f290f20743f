#include "client/cli/torch_snapshot.h"

#include <algorithm>
#include <vector>

#include "client/cli/pickle.h"

namespace tenure::cli {
namespace {

constexpr int64_t kDeviceAddresses = int64_t{1} << 46;
constexpr int64_t kSegmentGap = int64_t{2} << 20;
// From there on PyTorch calls an allocation large.
constexpr uint64_t kLarge = uint64_t{1} << 20;

struct TorchBlock {
  uint64_t size = 0;
  uint64_t requested = 0;
  bool active = false;
  std::string name;
};

struct TorchSegment {
  std::string where;   // "gpu:0/weights"
  uint64_t owner = 0;  // a session, or nobody
  uint64_t line = 0;
  std::vector<TorchBlock> blocks;

  void Add(uint64_t size, uint64_t requested, bool active, std::string name) {
    if (size > 0) blocks.push_back({size, requested, active, std::move(name)});
  }
};

TorchSegment RegionSegment(const std::string& where, const MapRegion& region) {
  TorchSegment segment{.where = where, .owner = 0, .line = region.generation, .blocks = {}};
  const bool active = region.state != "retained";
  segment.Add(region.bytes, active ? region.tensor_bytes : region.bytes, active,
              region.model + "@" + std::to_string(region.revision) + " " + region.state);
  return segment;
}

// Those parts of a pool's segment that buffers lie in, and what is between them.
void AddBuffers(const MapPool& pool, const MapSegment& from, const std::string& name,
                TorchSegment& segment) {
  const uint64_t end = from.offset + pool.segment_bytes;
  uint64_t at = from.offset;
  const auto first = std::partition_point(
      pool.buffers.begin(), pool.buffers.end(),
      [&](const MapBuffer& buffer) { return buffer.offset + buffer.size <= from.offset; });
  for (auto buffer = first; buffer != pool.buffers.end() && buffer->offset < end; ++buffer) {
    const uint64_t begin = std::max(at, buffer->offset);
    const uint64_t stop = std::min(end, buffer->offset + buffer->size);
    segment.Add(begin - at, 0, false, name + " pooled");
    // Of a buffer that goes on in the next segment this is a part.
    segment.Add(stop - begin, std::min(buffer->requested, stop - begin), true,
                name + " " + buffer->kind);
    at = stop;
  }
  segment.Add(end - at, 0, false, name + " pooled");
}

std::vector<TorchSegment> PoolSegments(const std::string& where, const MapPool& pool,
                                       const std::string& name) {
  std::vector<TorchSegment> segments;
  uint64_t next = 0;
  for (const MapSegment& from : pool.segments) {
    if (segments.empty() || from.offset != next) {
      segments.push_back(
          {.where = where, .owner = pool.session_id, .line = pool.pool_id, .blocks = {}});
    }
    next = from.offset + pool.segment_bytes;
    if (from.state == "pooled") {
      AddBuffers(pool, from, name, segments.back());
    } else {
      segments.back().Add(pool.segment_bytes, pool.segment_bytes, true, name + " " + from.state);
    }
  }
  return segments;
}

std::vector<TorchSegment> SegmentsOf(const MemoryMap& map, const MapDevice& device,
                                     const MapArena& arena) {
  const std::string where = device.name + "/" + arena.ledger.arena;
  std::vector<TorchSegment> segments;
  for (const MapRegion& region : arena.regions) segments.push_back(RegionSegment(where, region));
  for (const MapPool& pool : arena.pools) {
    std::vector<TorchSegment> more = PoolSegments(where, pool, map.NameOf(pool.session_id));
    std::move(more.begin(), more.end(), std::back_inserter(segments));
  }
  for (const MapRun& run : arena.cached) {
    for (uint64_t i = 0; i < run.count; ++i) {
      segments.push_back({.where = where, .owner = 0, .line = 0, .blocks = {}});
      segments.back().Add(run.size, 0, false, "cached");
    }
  }
  std::erase_if(segments, [](const TorchSegment& segment) { return segment.blocks.empty(); });
  return segments;
}

void Field(PickleWriter& out, const char* name, uint64_t number) {
  out.Key(name);
  out.Int(static_cast<int64_t>(number));
}

void Field(PickleWriter& out, const char* name, const std::string& text) {
  out.Key(name);
  out.String(text);
}

void WriteFrames(PickleWriter& out, const TorchSegment& segment, const std::string& name) {
  out.Key("frames");
  out.BeginList();
  out.BeginDictionary();
  Field(out, "name", name);
  Field(out, "filename", "tenure/" + segment.where);
  Field(out, "line", segment.line);
  out.EndDictionary();
  out.EndList();
}

void Write(PickleWriter& out, uint64_t device, uint64_t address, const TorchSegment& segment) {
  uint64_t total = 0;
  uint64_t active = 0;
  uint64_t requested = 0;
  for (const TorchBlock& block : segment.blocks) {
    total += block.size;
    active += block.active ? block.size : 0;
    requested += block.active ? block.requested : 0;
  }
  out.BeginDictionary();
  Field(out, "device", device);
  Field(out, "address", address);
  Field(out, "total_size", total);
  Field(out, "allocated_size", active);
  Field(out, "active_size", active);
  Field(out, "requested_size", requested);
  Field(out, "stream", segment.owner);
  Field(out, "segment_type", std::string(total >= kLarge ? "large" : "small"));
  out.Key("is_expandable");
  out.Bool(true);
  WriteFrames(out, segment, segment.blocks.front().name);
  out.Key("blocks");
  out.BeginList();
  for (const TorchBlock& block : segment.blocks) {
    out.BeginDictionary();
    Field(out, "address", address);
    Field(out, "size", block.size);
    Field(out, "requested_size", block.active ? block.requested : block.size);
    Field(out, "state", std::string(block.active ? "active_allocated" : "inactive"));
    WriteFrames(out, segment, block.name);
    out.EndDictionary();
    address += block.size;
  }
  out.EndList();
  out.EndDictionary();
}

}  // namespace

std::string TorchSnapshot(const MemoryMap& map) {
  PickleWriter out;
  out.BeginDictionary();
  out.Key("segments");
  out.BeginList();
  for (size_t i = 0; i < map.devices.size(); ++i) {
    uint64_t address = static_cast<uint64_t>(kDeviceAddresses) * (i + 1);
    for (const MapArena& arena : map.devices[i].arenas) {
      for (const TorchSegment& segment : SegmentsOf(map, map.devices[i], arena)) {
        Write(out, i, address, segment);
        for (const TorchBlock& block : segment.blocks) address += block.size;
        address += kSegmentGap;
      }
    }
  }
  out.EndList();
  out.Key("device_traces");
  out.BeginList();
  for (size_t i = 0; i < map.devices.size(); ++i) {
    out.BeginList();
    out.EndList();
  }
  out.EndList();
  out.Key("allocator_settings");
  out.BeginDictionary();
  out.EndDictionary();
  out.EndDictionary();
  return out.Finish();
}

}  // namespace tenure::cli
