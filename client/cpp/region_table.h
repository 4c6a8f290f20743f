#pragma once

#include <absl/status/status.h>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/mapping.h"

namespace tenure::client {

// The regions of one session, each mapped at most once:
//
//   unmapped -> fetching -> mapped -> unmapping -> unmapped
//
// A fetch that fails goes back to unmapped, by way of unmapping if a range was reserved already. An
// unmapping that fails ends in stuck, for good. A region that is unmapped and has no users is
// forgotten.
//
// A user is a lease object, live or lost: as long as there is one the mapping stays, since somebody
// may be reading through it. A mapped region without users is idle: kept for quick return, given
// back when the daemon wants it. Thread-compatible.
class RegionTable {
 public:
  enum class State { kUnmapped, kFetching, kMapped, kUnmapping, kStuck };

  struct Region {
    State state = State::kUnmapped;
    std::string device;
    uint64_t size_bytes = 0;
    size_t users = 0;
    uint64_t share_serial = 0;         // while mapped or unmapping, or once stuck
    std::shared_ptr<Mapping> mapping;  // the same
    absl::Status stuck;                // why it could not be unmapped, once stuck
  };

  // What is to be unmapped, then told under this serial unless that is 0.
  struct Taken {
    uint64_t region_id = 0;
    std::string device;
    uint64_t share_serial = 0;
    std::shared_ptr<Mapping> mapping;
  };

  // Adds a user. The reference stays good until this user is removed.
  Region& Use(uint64_t region_id, const std::string& device, uint64_t size_bytes);
  // REQUIRES: the region has a user.
  void Unuse(uint64_t region_id);

  // REQUIRES: the region is unmapped.
  void BeginFetch(uint64_t region_id);
  // REQUIRES: the region is fetching.
  void FinishFetch(uint64_t region_id, uint64_t share_serial, std::shared_ptr<Mapping> mapping);
  // Nothing has come yet.
  void FailFetch(uint64_t region_id);
  // A part has come, or at least a range is reserved.
  Taken TakePart(uint64_t region_id, uint64_t share_serial, std::shared_ptr<Mapping> mapping);

  // Takes the region mapped under this serial if it is idle; nullopt, and nothing changes, if it is
  // in use or not known.
  std::optional<Taken> TakeIdle(uint64_t share_serial);
  std::vector<Taken> TakeAllIdle();
  // What came of the unmapping of something taken.
  void FinishUnmap(uint64_t region_id, const absl::Status& status);

  // Those of which anything is mapped, and known under a serial.
  size_t mapped_count() const;
  std::map<std::string, uint64_t> mapped_bytes_by_device() const;

 private:
  using Regions = std::map<uint64_t, Region>;

  static bool Idle(const Region& region) {
    return region.state == State::kMapped && region.users == 0;
  }
  static bool Mapped(const Region& region) {
    return region.state == State::kMapped || region.state == State::kUnmapping ||
           region.state == State::kStuck;
  }
  static Taken Take(Regions::value_type& entry);
  void ForgetIfUnused(Regions::iterator region);

  Regions regions_;
};

}  // namespace tenure::client
