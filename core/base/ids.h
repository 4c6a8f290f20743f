#pragma once

// Strong ids. Two kinds of id never mix, and none is ever reused within one boot of the daemon.

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace tenure {

template <typename Tag>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(uint64_t value) : value_(value) {}

  constexpr uint64_t value() const { return value_; }
  // Zero names nothing: issued ids start at 1.
  constexpr bool valid() const { return value_ != 0; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  uint64_t value_ = 0;
};

using SessionId = StrongId<struct SessionTag>;
using LeaseId = StrongId<struct LeaseTag>;
using RegionId = StrongId<struct RegionTag>;
using ShareSerial = StrongId<struct ShareTag>;
using PoolId = StrongId<struct PoolTag>;
using BufferId = StrongId<struct BufferTag>;
using RefusalId = StrongId<struct RefusalTag>;
// Grows by one per name each time the name gets other content.
using Revision = StrongId<struct RevisionTag>;
// Grows by one each time a Region's content may change: the fencing number of a Region.
using Generation = StrongId<struct GenerationTag>;

// Issues 1, 2, 3, ... Thread-safe.
template <typename Id>
class IdSequence {
 public:
  Id Next() { return Id(last_.fetch_add(1, std::memory_order_relaxed) + 1); }

 private:
  std::atomic<uint64_t> last_ = 0;
};

}  // namespace tenure

template <typename Tag>
struct std::hash<tenure::StrongId<Tag>> {
  size_t operator()(tenure::StrongId<Tag> id) const noexcept {
    return std::hash<uint64_t>()(id.value());
  }
};
