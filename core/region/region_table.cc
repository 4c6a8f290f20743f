#include "core/region/region_table.h"

#include <algorithm>

namespace tenure {
namespace {

template <typename Index, typename Key>
void EraseEntry(Index& index, const Key& key, RegionId id) {
  const auto [first, last] = index.equal_range(key);
  const auto entry = std::find_if(first, last, [id](const auto& e) { return e.second == id; });
  TENURE_CHECK(entry != last);
  index.erase(entry);
}

}  // namespace

const Region& RegionTable::Create(std::shared_ptr<const Layout> layout, Bytes bytes) {
  auto region = std::make_unique<Region>();
  region->id = ids_.Next();
  region->generation = Generation(1);
  region->layout = std::move(layout);
  region->bytes = bytes;
  const Region& created = *region;
  by_architecture_.emplace(created.layout->key(), created.id);
  regions_.emplace(created.id, std::move(region));
  Account(created);
  return created;
}

const Region* RegionTable::Find(RegionId id) const {
  const auto found = regions_.find(id);
  return found == regions_.end() ? nullptr : found->second.get();
}

Region& RegionTable::Get(RegionId id) {
  const auto found = regions_.find(id);
  TENURE_CHECK(found != regions_.end());
  return *found->second;
}

void RegionTable::Account(const Region& region) {
  ledger_.Add(region.holding(), region.bytes, region.layout->tensor_bytes());
  peak_allocated_ = std::max(peak_allocated_, ledger_.allocated());
  segments_ += region.segments.size();
  if (region.content.has_value()) by_content_.emplace(*region.content, region.id);
}

void RegionTable::Unaccount(const Region& region) {
  ledger_.Remove(region.holding(), region.bytes, region.layout->tensor_bytes());
  segments_ -= region.segments.size();
  if (region.content.has_value()) EraseEntry(by_content_, *region.content, region.id);
}

void RegionTable::Update(RegionId id, const std::function<void(Region&)>& change) {
  Region& region = Get(id);
  Unaccount(region);
  change(region);
  Account(region);
}

std::vector<Segment> RegionTable::Transition(RegionId id, RegionEvent event) {
  Region& region = Get(id);
  const std::optional<RegionState> next = NextState(region.state, event);
  TENURE_CHECK(next.has_value());
  Unaccount(region);
  region.state = *next;
  if (event == RegionEvent::kAdopt) {
    region.generation = Generation(region.generation.value() + 1);
    region.content.reset();
  }
  if (region.state != RegionState::kFreed) {
    Account(region);
    return {};
  }
  std::vector<Segment> segments = std::move(region.segments);
  EraseEntry(by_architecture_, region.layout->key(), id);
  regions_.erase(id);
  return segments;
}

std::vector<const Region*> RegionTable::WithContent(const ContentId& content) const {
  std::vector<const Region*> found;
  const auto [first, last] = by_content_.equal_range(content);
  for (auto entry = first; entry != last; ++entry) found.push_back(Find(entry->second));
  return found;
}

std::vector<const Region*> RegionTable::WithArchitecture(const ArchitectureKey& key) const {
  std::vector<const Region*> found;
  const auto [first, last] = by_architecture_.equal_range(key);
  for (auto entry = first; entry != last; ++entry) found.push_back(Find(entry->second));
  return found;
}

std::vector<const Region*> RegionTable::All() const {
  std::vector<const Region*> all;
  all.reserve(regions_.size());
  for (const auto& [id, region] : regions_) all.push_back(region.get());
  std::sort(all.begin(), all.end(), [](const Region* a, const Region* b) { return a->id < b->id; });
  return all;
}

std::vector<RegionId> RegionTable::Expired(Instant now) const {
  std::vector<RegionId> expired;
  for (const auto& [id, region] : regions_) {
    if (region->expires <= now && region->disposable()) expired.push_back(id);
  }
  return expired;
}

std::array<uint64_t, kRegionStates> RegionTable::CountByState() const {
  std::array<uint64_t, kRegionStates> counts{};
  for (const auto& [id, region] : regions_) ++counts[static_cast<size_t>(region->state)];
  return counts;
}

void RegionTable::Validate() const {
  Ledger sums;
  size_t with_content = 0;
  uint64_t segment_count = 0;
  for (const auto& [id, region] : regions_) {
    segment_count += region->segments.size();
    TENURE_CHECK(region->id == id && region->state != RegionState::kFreed);
    TENURE_CHECK(region->quarantined_shares <= region->shares);
    TENURE_CHECK(region->layout->total() <= region->bytes);
    sums.Add(region->holding(), region->bytes, region->layout->tensor_bytes());
    if (region->content.has_value()) ++with_content;
    if (region->state == RegionState::kLoading) continue;
    Bytes segments;
    for (const Segment& segment : region->segments) segments += segment.size();
    TENURE_CHECK(segments == region->bytes);
  }
  TENURE_CHECK(sums == ledger_ && ledger_.allocated() <= peak_allocated_);
  TENURE_CHECK(segment_count == segments_);
  TENURE_CHECK(by_content_.size() == with_content && by_architecture_.size() == regions_.size());
}

}  // namespace tenure
