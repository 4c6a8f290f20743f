#include "client/cpp/region_table.h"

#include <algorithm>
#include <utility>

namespace tenure::client {

RegionTable::Region& RegionTable::Use(uint64_t region_id, const std::string& device,
                                      uint64_t size_bytes) {
  const auto [entry, added] = regions_.try_emplace(region_id);
  if (added) {
    entry->second.device = device;
    entry->second.size_bytes = size_bytes;
  }
  ++entry->second.users;
  return entry->second;
}

void RegionTable::Unuse(uint64_t region_id) {
  const auto entry = regions_.find(region_id);
  --entry->second.users;
  ForgetIfUnused(entry);
}

void RegionTable::BeginFetch(uint64_t region_id) {
  regions_.find(region_id)->second.state = State::kFetching;
}

void RegionTable::FinishFetch(uint64_t region_id, uint64_t share_serial,
                              std::shared_ptr<Mapping> mapping) {
  Region& region = regions_.find(region_id)->second;
  region.state = State::kMapped;
  region.share_serial = share_serial;
  region.mapping = std::move(mapping);
}

void RegionTable::FailFetch(uint64_t region_id) {
  const auto entry = regions_.find(region_id);
  entry->second.state = State::kUnmapped;
  ForgetIfUnused(entry);
}

RegionTable::Taken RegionTable::TakePart(uint64_t region_id, uint64_t share_serial,
                                         std::shared_ptr<Mapping> mapping) {
  FinishFetch(region_id, share_serial, std::move(mapping));
  return Take(*regions_.find(region_id));
}

std::optional<RegionTable::Taken> RegionTable::TakeIdle(uint64_t share_serial) {
  const auto entry = std::find_if(regions_.begin(), regions_.end(), [&](const auto& each) {
    return Idle(each.second) && each.second.share_serial == share_serial;
  });
  if (entry == regions_.end()) return std::nullopt;
  return Take(*entry);
}

std::vector<RegionTable::Taken> RegionTable::TakeAllIdle() {
  std::vector<Taken> taken;
  for (auto& entry : regions_) {
    if (Idle(entry.second)) taken.push_back(Take(entry));
  }
  return taken;
}

void RegionTable::FinishUnmap(uint64_t region_id, const absl::Status& status) {
  const auto entry = regions_.find(region_id);
  Region& region = entry->second;
  if (status.ok()) {
    region.state = State::kUnmapped;
    region.share_serial = 0;
    region.mapping.reset();
    ForgetIfUnused(entry);
  } else {
    region.state = State::kStuck;
    region.stuck = status;
  }
}

size_t RegionTable::mapped_count() const {
  return static_cast<size_t>(std::count_if(regions_.begin(), regions_.end(), [](const auto& each) {
    return Mapped(each.second) && each.second.share_serial != 0;
  }));
}

std::map<std::string, uint64_t> RegionTable::mapped_bytes_by_device() const {
  std::map<std::string, uint64_t> bytes;
  for (const auto& [id, region] : regions_) {
    if (Mapped(region) && region.share_serial != 0) bytes[region.device] += region.size_bytes;
  }
  return bytes;
}

RegionTable::Taken RegionTable::Take(Regions::value_type& entry) {
  Region& region = entry.second;
  region.state = State::kUnmapping;
  return {entry.first, region.device, region.share_serial, region.mapping};
}

void RegionTable::ForgetIfUnused(Regions::iterator region) {
  if (region->second.users == 0 && region->second.state == State::kUnmapped) regions_.erase(region);
}

}  // namespace tenure::client
