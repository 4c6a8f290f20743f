#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/mapping.h"

namespace tenure::client {

// The regions of one session, each mapped at most once. A region is fetching while its segments are
// on their way, mapped afterwards, and forgotten when neither and nobody uses it.
//
// A user is a lease object, live or lost: as long as there is one the mapping stays, since somebody
// may be reading through it. A mapped region without users is idle: kept for quick return, given
// back when the daemon wants it. Thread-compatible.
class RegionTable {
 public:
  enum class State { kUnmapped, kFetching, kMapped };

  struct Region {
    State state = State::kUnmapped;
    std::string device;
    uint64_t size_bytes = 0;
    size_t users = 0;
    uint64_t share_serial = 0;  // while mapped
    Mapping mapping;            // while mapped
  };

  // What was taken out: to be unmapped, then told under this serial.
  struct Taken {
    uint64_t share_serial = 0;
    Mapping mapping;
  };

  // Adds a user. The reference stays good until this user is removed.
  Region& Use(uint64_t region_id, const std::string& device, uint64_t size_bytes);
  // REQUIRES: the region has a user.
  void Unuse(uint64_t region_id);

  // REQUIRES: the region is unmapped.
  void BeginFetch(uint64_t region_id);
  // REQUIRES: the region is fetching.
  void FinishFetch(uint64_t region_id, uint64_t share_serial, Mapping mapping);
  void FailFetch(uint64_t region_id);

  // Forgets the region mapped under this serial if it is idle; nullopt, and nothing changes, if it
  // is in use or not known.
  std::optional<Taken> TakeIdle(uint64_t share_serial);
  std::vector<Taken> TakeAllIdle();

  size_t mapped_count() const;
  std::map<std::string, uint64_t> mapped_bytes_by_device() const;

 private:
  using Regions = std::map<uint64_t, Region>;

  static bool Idle(const Region& region) {
    return region.state == State::kMapped && region.users == 0;
  }
  void ForgetIfUnused(Regions::iterator region);

  Regions regions_;
};

}  // namespace tenure::client
