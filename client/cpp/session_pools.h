#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cpp/deadline.h"
#include "client/cpp/held_lease.h"
#include "client/cpp/pool_mapping.h"

namespace tenure::client {

// A pool as the daemon describes it.
struct PoolSpec {
  uint64_t pool_id = 0;
  LeasedDevice device;
  uint64_t range_bytes = 0;
  uint64_t segment_bytes = 0;
  Duration ttl{};
  Instant granted_at{};  // a moment before the daemon last said that its lease is good for `ttl`
};

// What a session has to say to whoever hands out of one of its pools. Called without a lock of the
// session's. Must not wait but for the pool's device.
class PoolListener {
 public:
  virtual ~PoolListener() = default;
  // Somebody lacks so many bytes. In a thread in which the device may be waited for.
  virtual void OnMemoryWanted(uint64_t bytes) = 0;
  // The lease on the pool is over, for good. In the session's thread.
  virtual void OnPoolLost(const std::string& reason) = 0;
  // Time has passed. As OnMemoryWanted.
  virtual void OnSweep(Instant now) = 0;
};

// The pools of one session, and of each the segments that this process has mapped:
//
//   (absent) -> mapped -> unmapping -> (absent)
//
// An unmapping that fails ends in stuck, for good. Thread-compatible.
class SessionPools {
 public:
  struct Segment {
    uint64_t pool_id = 0;
    std::string device;
    uint64_t offset = 0;
    uint64_t share_serial = 0;
    uint64_t bytes = 0;
    std::shared_ptr<PoolMapping> mapping;
  };

  // Null if there is no such pool.
  std::shared_ptr<PoolMapping> FindMapping(uint64_t pool_id) const;
  void Add(const PoolSpec& spec, std::shared_ptr<PoolMapping> mapping);
  // The daemon has granted something in the pool: it is not overdue any more.
  void Renew(const PoolSpec& spec);
  // False if the pool is lost, or not known.
  bool Listen(uint64_t pool_id, std::weak_ptr<PoolListener> listener);

  // REQUIRES: the pool is known, and nothing is mapped there.
  void AddSegment(const Segment& segment);
  // Puts those of `offsets` that are mapped first. How many these are; UNAVAILABLE if one of them
  // is neither mapped nor absent.
  absl::StatusOr<size_t> PutMappedFirst(uint64_t pool_id, std::vector<uint64_t>& offsets) const;
  // Takes what is mapped there to be unmapped; nullopt if nothing is.
  std::optional<Segment> Take(uint64_t pool_id, uint64_t offset);
  std::optional<Segment> TakeShare(uint64_t share_serial);
  std::vector<Segment> TakeAll();
  // What is mapped of a pool that is lost and that nobody listens to.
  std::vector<uint64_t> LeftIn(uint64_t pool_id) const;
  // What came of the unmapping of something taken.
  void FinishUnmap(const Segment& taken, const absl::Status& status);

  struct Listening {
    std::shared_ptr<PoolListener> listener;
    std::string device;
    bool waits = false;  // as PoolMapping::waits
  };
  // Those to be told. Their pools count as lost from then on where they are said to be.
  using Listeners = std::vector<Listening>;
  Listeners ListenersOf(uint64_t pool_id) const;
  Listeners AllListeners() const;
  Listeners Lose(uint64_t pool_id);
  Listeners LoseAll();
  // Of pools whose lease nobody has promised beyond `now`.
  Listeners LoseOverdue(Instant now, Instant renewed_at);

  // All ranges of a device, which are gone from here.
  std::vector<std::shared_ptr<PoolMapping>> TakeMappings(const std::string& device);

  // Of runtime memory that is mapped, by device.
  std::map<std::string, uint64_t> mapped_bytes_by_device() const;

 private:
  enum class State { kMapped, kUnmapping, kStuck };
  struct Entry {
    State state = State::kMapped;
    uint64_t share_serial = 0;
    uint64_t bytes = 0;
  };
  struct Pool {
    PoolSpec spec;
    std::shared_ptr<PoolMapping> mapping;
    std::map<uint64_t, Entry> segments;  // by offset
    std::vector<std::weak_ptr<PoolListener>> listeners;
    bool lost = false;     // for good
    bool overdue = false;  // lost, unless the daemon grants something in it
  };

  static Listeners Living(const Pool& pool);

  std::map<uint64_t, Pool> pools_;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> shares_;  // serial -> pool, offset; mapped ones
};

}  // namespace tenure::client
