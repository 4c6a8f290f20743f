#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/check.h"

namespace tenure {

enum class RegionState : uint8_t {
  kLoading,   // being filled; no lease
  kActive,    // can be leased
  kDraining,  // its model went offline while leases live
  kRetained,  // without an owner; the content is kept for its TTL
  kEmpty,     // without an owner; the layout is kept, the content is unknown
  kLost,      // its Device is gone, and the content with it
  kFreed,     // the memory is the arena's again; the id is never used again
};

enum class RegionEvent : uint8_t {
  kPublish,  // the content is complete
  kAbandon,  // the load into memory of its own ended without content
  kSpoil,    // the load into adopted memory ended without content
  kDrain,    // the model goes offline, leases live
  kRetire,   // the model goes offline, or the last lease of a draining one ended
  kRestore,  // the same content is wanted again
  kAdopt,    // another model takes the memory in place
  kReclaim,  // the memory goes back to the arena
  kLose,     // the Device is gone
};

inline constexpr size_t kRegionStates = 7;
inline constexpr size_t kRegionEvents = 9;

namespace internal {

struct RegionEdge {
  RegionState from;
  RegionEvent event;
  RegionState to;
};

inline constexpr std::array<RegionEdge, 16> kRegionEdges = {{
    {RegionState::kLoading, RegionEvent::kPublish, RegionState::kActive},
    {RegionState::kLoading, RegionEvent::kAbandon, RegionState::kFreed},
    {RegionState::kLoading, RegionEvent::kSpoil, RegionState::kEmpty},
    {RegionState::kActive, RegionEvent::kDrain, RegionState::kDraining},
    {RegionState::kActive, RegionEvent::kRetire, RegionState::kRetained},
    {RegionState::kDraining, RegionEvent::kRetire, RegionState::kRetained},
    {RegionState::kDraining, RegionEvent::kRestore, RegionState::kActive},
    {RegionState::kRetained, RegionEvent::kRestore, RegionState::kActive},
    {RegionState::kRetained, RegionEvent::kAdopt, RegionState::kLoading},
    {RegionState::kRetained, RegionEvent::kReclaim, RegionState::kFreed},
    {RegionState::kEmpty, RegionEvent::kAdopt, RegionState::kLoading},
    {RegionState::kEmpty, RegionEvent::kReclaim, RegionState::kFreed},
    {RegionState::kActive, RegionEvent::kLose, RegionState::kLost},
    {RegionState::kDraining, RegionEvent::kLose, RegionState::kLost},
    {RegionState::kRetained, RegionEvent::kLose, RegionState::kLost},
    {RegionState::kEmpty, RegionEvent::kLose, RegionState::kLost},
}};

}  // namespace internal

// The state after `event` in `from`; nullopt if the event cannot happen there.
constexpr std::optional<RegionState> NextState(RegionState from, RegionEvent event) {
  for (const internal::RegionEdge& edge : internal::kRegionEdges) {
    if (edge.from == from && edge.event == event) return edge.to;
  }
  return std::nullopt;
}

// "LOADING", "ACTIVE", ...
std::string_view RegionStateName(RegionState state);

}  // namespace tenure
