// The words for states, as commands and JSON show them.

#include "tenure/daemon_status.h"
#include "tenure/load.h"
#include "tenure/memory_kind.h"
#include "tenure/model.h"
#include "tenure/refusal.h"

namespace tenure::client {

std::string_view ModelStateName(ModelState state) {
  switch (state) {
    case ModelState::kUnspecified:
      return "unspecified";
    case ModelState::kLoading:
      return "loading";
    case ModelState::kActive:
      return "active";
    case ModelState::kDraining:
      return "draining";
    case ModelState::kRetained:
      return "retained";
    case ModelState::kEmpty:
      return "empty";
    case ModelState::kLost:
      return "lost";
    case ModelState::kGone:
      return "gone";
  }
  return "unspecified";
}

std::string_view ReuseName(Reuse reuse) {
  switch (reuse) {
    case Reuse::kUnspecified:
      return "unspecified";
    case Reuse::kResident:
      return "resident";
    case Reuse::kRevived:
      return "revived";
    case Reuse::kAdopted:
      return "adopted";
    case Reuse::kRecycled:
      return "recycled";
    case Reuse::kFresh:
      return "fresh";
  }
  return "unspecified";
}

std::string_view MemoryKindName(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kHost:
      return "host";
    case MemoryKind::kCuda:
      return "cuda";
  }
  return "host";
}

std::string_view FitVerdictName(FitVerdict verdict) {
  switch (verdict) {
    case FitVerdict::kUnspecified:
      return "unspecified";
    case FitVerdict::kNow:
      return "now";
    case FitVerdict::kAfterReclaim:
      return "after reclaim";
    case FitVerdict::kWhenReleased:
      return "when released";
    case FitVerdict::kNever:
      return "never";
    case FitVerdict::kDeviceLost:
      return "device lost";
    case FitVerdict::kCordoned:
      return "cordoned";
  }
  return "unspecified";
}

std::string_view SessionStateName(SessionState state) {
  switch (state) {
    case SessionState::kUnspecified:
      return "unspecified";
    case SessionState::kLive:
      return "live";
    case SessionState::kDeaf:
      return "deaf";
    case SessionState::kGone:
      return "gone";
  }
  return "unspecified";
}

}  // namespace tenure::client
