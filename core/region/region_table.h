#pragma once

#include <array>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/arena/ledger.h"
#include "core/base/ids.h"
#include "core/region/region.h"

namespace tenure {

// All Regions of one weights arena that are not Freed, found by id, content or architecture in
// constant time, and their sums. Every change of a Region goes through Update or Transition, so
// that the sums and the indices are right after each. Thread-compatible.
class RegionTable {
 public:
  // Ids come from `ids`, so that several tables never issue the same.
  explicit RegionTable(IdSequence<RegionId>& ids) : ids_(ids) {}

  // A new Region in Loading, of the first Generation. The reference stays valid until Erase.
  const Region& Create(std::shared_ptr<const Layout> layout, Bytes bytes);

  // nullptr if there is none.
  const Region* Find(RegionId id) const;

  // REQUIRES: the Region is in this table, and `change` leaves id, state, layout and bytes alone.
  void Update(RegionId id, const std::function<void(Region&)>& change);

  // REQUIRES: NextState(state, event) is a state. The Generation grows with kAdopt; the content is
  // unknown from kAdopt until somebody sets it. A Region that becomes Freed is taken out: its
  // Segments are returned, and only then any.
  std::vector<Segment> Transition(RegionId id, RegionEvent event);

  // Regions with this content, or with this architecture; whatever their state.
  std::vector<const Region*> WithContent(const ContentId& content) const;
  std::vector<const Region*> WithArchitecture(const ArchitectureKey& key) const;

  // By id.
  std::vector<const Region*> All() const;
  // The disposable Regions whose TTL is over at `now`.
  std::vector<RegionId> Expired(Instant now) const;
  std::array<uint64_t, kRegionStates> CountByState() const;

  // The states' sums; what only the arena knows is zero.
  const Ledger& ledger() const { return ledger_; }
  // The most that was allocated since start or ForgetPeak.
  Bytes peak_allocated() const { return peak_allocated_; }
  void ForgetPeak() { peak_allocated_ = ledger_.allocated(); }
  // Of all Regions.
  uint64_t segments() const { return segments_; }

  // CHECKs that sums and indices are what the Regions say.
  void Validate() const;

 private:
  Region& Get(RegionId id);
  void Account(const Region& region);
  void Unaccount(const Region& region);

  IdSequence<RegionId>& ids_;
  std::unordered_map<RegionId, std::unique_ptr<Region>> regions_;
  std::unordered_multimap<ContentId, RegionId> by_content_;
  std::unordered_multimap<ArchitectureKey, RegionId> by_architecture_;
  Ledger ledger_;
  Bytes peak_allocated_;
  uint64_t segments_ = 0;
};

}  // namespace tenure
