#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/content_id.h"
#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/layout/layout.h"
#include "core/region/region_state.h"

namespace tenure {

// How a load got its memory, cheapest first.
enum class Reuse { kResident, kRevived, kAdopted, kRecycled, kFresh };
inline constexpr size_t kReuses = 5;
// "RESIDENT", ...
std::string_view ReuseName(Reuse reuse);

// When a call must have ended, and whether its caller is still there.
struct CallLimits {
  Instant deadline = kNever;
  // May be called from the calling thread at any time; empty: never cancelled.
  std::function<bool()> cancelled;

  // OK, DEADLINE or CANCELLED.
  Status Check(Instant now) const;
};

// Brings a model online; see LoadModelRequest in model.proto, field by field.
struct LoadRequest {
  SessionId session;
  std::string name;
  std::string path;
  std::string device;
  bool pin = false;
  std::optional<Duration> retain_ttl;  // kForever: kept until the room is needed
  std::string request_id;
  bool acquire = false;
  std::optional<Duration> lease_ttl;
};

struct LoadPhases {
  Duration open{};
  Duration parse{};
  Duration place{};
  Duration read{};
  Duration copy{};
  Duration publish{};
  Duration total{};
};

// The phases that follow one another, by name; they add up to the total.
inline constexpr std::array<std::pair<const char*, Duration LoadPhases::*>, 6> kLoadPhases = {
    {{"open", &LoadPhases::open},
     {"parse", &LoadPhases::parse},
     {"place", &LoadPhases::place},
     {"read", &LoadPhases::read},
     {"copy", &LoadPhases::copy},
     {"publish", &LoadPhases::publish}}};

struct Holder {
  SessionId session;
  std::string program;
  std::string instance;
  uint32_t leases = 0;
  bool quarantined = false;
};

// A model and its memory at one moment.
struct ModelView {
  std::string name;
  Revision revision;
  RegionState state = RegionState::kLoading;
  std::string device;
  std::string path;    // canonical
  std::string source;  // as the load named it
  std::shared_ptr<const Layout> layout;
  std::optional<ContentId> content;
  RegionId region;
  Generation generation;
  Bytes region_bytes;
  bool pinned = false;
  std::optional<Duration> retain_ttl;  // nullopt: as configured
  std::vector<Holder> holders;
  std::optional<Duration> expires_in;
};

struct GrantedLease {
  LeaseId id;
  std::string name;
  Revision revision;
  std::string device;
  std::string backend;      // of the Device
  std::string device_uuid;  // likewise
  RegionId region;
  Generation generation;
  ArchitectureKey architecture;
  Bytes region_bytes;
  uint32_t segment_count = 0;
  Duration ttl{};
};

struct LoadResult {
  ModelView model;
  Reuse reuse = Reuse::kResident;
  Bytes copied;
  uint32_t segments_created = 0;
  uint32_t segments_reused = 0;
  LoadPhases phases;
  std::vector<std::string> reclaimed;  // `name@revision`
  std::optional<GrantedLease> lease;
};

// freed + retained + deferred = the Region's bytes.
struct UnloadResult {
  RegionState state = RegionState::kFreed;
  Bytes freed;
  Bytes retained;
  Bytes deferred;
  std::vector<Holder> holders;
};

struct LoadProgress {
  std::string_view stage;
  Bytes done;
  Bytes total;
  double bytes_per_second = 0;
};

}  // namespace tenure
