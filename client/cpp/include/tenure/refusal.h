#pragma once

// Why a call was refused for want of room, and whether another would be. Plain values; sizes are in
// bytes.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/buffer_kind.h"
#include "tenure/export.h"

namespace tenure::client {

// What would come of a request for memory.
enum class FitVerdict {
  kUnspecified,   // told by a newer daemon
  kNow,           // it would be granted
  kAfterReclaim,  // once what nobody uses was taken back: the call does that and waits for it
  kWhenReleased,  // it would be refused until somebody lets go of what is held
  kNever,         // it would be refused with CAPACITY: it is more than all of the arena
  kDeviceLost,    // the device does not serve any more
  kCordoned,      // the device takes nothing new, on an operator's word
};

// "now", "after reclaim", "when released", "never", "device lost".
TENURE_CLIENT_API std::string_view FitVerdictName(FitVerdict verdict);

// Asks whether there is room for a model or, if `path` is empty, for a buffer of this session.
struct FitRequest {
  // As in LoadRequest. The model counts as one that is not loaded yet under its name.
  std::string path{};
  // Of a buffer: as in BufferPool.
  uint64_t bytes = 0;
  uint64_t alignment = 0;  // 0: 256
  BufferKind kind = BufferKind::kActivation;
  // Empty: every device answers.
  std::string device{};
};

// What one device says.
struct DeviceFit {
  std::string device;
  FitVerdict verdict = FitVerdict::kUnspecified;
  uint64_t needed_bytes = 0;       // what was asked about, rounded up as it would be granted
  uint64_t capacity_bytes = 0;     // of the arena
  uint64_t free_bytes = 0;         // of that
  uint64_t largest_now_bytes = 0;  // that would be granted now; for a buffer, of whichever kind
  uint64_t largest_bytes = 0;      // likewise once what nobody uses was taken back
  std::string explanation;         // for people
};

// A call that was refused for want of room, with RESOURCE_EXHAUSTED.
struct Refusal {
  uint64_t refusal_id = 0;         // as in the error's value `refusal_id`
  std::chrono::nanoseconds age{};  // since then
  std::string method;              // "LoadModel"
  uint64_t session_id = 0;         // who called
  std::string program;
  std::string instance;
  std::string reason;  // as in errors.h
  std::string message;
  std::map<std::string, std::string> values;
  std::optional<DeviceFit> now;  // the same need on the same device now; unset if none can be told
};

}  // namespace tenure::client
