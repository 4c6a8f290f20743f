#include "server/event_lines.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_replace.h>
#include <chrono>
#include <spdlog/spdlog.h>
#include <string>

namespace tenure {
namespace {

spdlog::level::level_enum LevelOf(EventKind kind) {
  switch (kind) {
    case EventKind::kDeviceLost:
      return spdlog::level::err;
    case EventKind::kLeaseExpired:
    case EventKind::kLeaseLost:
    case EventKind::kRecallUnanswered:
    case EventKind::kPoolExpired:
    case EventKind::kPoolLost:
      return spdlog::level::warn;
    case EventKind::kReclaimed:
      return spdlog::level::info;
    default:
      return spdlog::level::debug;
  }
}

// "device lost"
std::string Words(EventKind kind) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(std::string(EventKindName(kind))), {{"_", " "}});
}

}  // namespace

void LogEvents(std::span<const Event> events) {
  for (const Event& event : events) {
    spdlog::log(LevelOf(event.kind),
                "{} device={} arena={} subject={} bytes={} session={} seconds={:.6f} detail=\"{}\" "
                "free_bytes={} event={}",
                Words(event.kind), event.device, event.arena, event.subject, event.bytes.count(),
                event.session.value(), std::chrono::duration<double>(event.took).count(),
                event.detail, event.ledger.free().count(), event.sequence);
  }
}

}  // namespace tenure
