#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/store/share_export.h"

namespace tenure {

// The exports of one store that have begun and not ended, in the order they came in; `Details` are
// what the store knows of each.
//
//   waiting --TakeWaiting--> running --FinishRun--> exported
//
// Whoever waits for it may end an export in every stage; one that is running is forgotten when the
// run is over. Thread-compatible.
template <typename Details>
class ExportQueue {
 public:
  void Add(ExportId id, Details details) {
    exports_.emplace(id, Entry{.details = std::move(details)});
  }

  // The first that waits, which is running from now on.
  std::optional<std::pair<ExportId, Details>> TakeWaiting() {
    for (auto& [id, entry] : exports_) {
      if (entry.stage != Stage::kWaiting) continue;
      entry.stage = Stage::kRunning;
      return std::pair(id, entry.details);
    }
    return std::nullopt;
  }
  // False if it has ended meanwhile. REQUIRES: it is running.
  bool FinishRun(ExportId id) {
    const auto found = exports_.find(id);
    TENURE_CHECK(found != exports_.end() && found->second.stage == Stage::kRunning);
    if (found->second.ended) {
      exports_.erase(found);
      return false;
    }
    found->second.stage = Stage::kExported;
    return true;
  }

  // Null if there is none.
  const Details* Find(ExportId id) const {
    const auto found = exports_.find(id);
    return found == exports_.end() ? nullptr : &found->second.details;
  }

  struct Ended {
    Details details;
    bool waited = false;  // it has never run, and will not
  };
  // nullopt if there is none, or it has ended. REQUIRES: it was exported, if it was `sent`.
  std::optional<Ended> End(ExportId id, bool sent) {
    const auto found = exports_.find(id);
    if (found == exports_.end() || found->second.ended) return std::nullopt;
    Entry& entry = found->second;
    TENURE_CHECK(!sent || entry.stage == Stage::kExported);
    Ended ended{.details = entry.details, .waited = entry.stage == Stage::kWaiting};
    if (entry.stage == Stage::kRunning) {
      entry.ended = true;
    } else {
      exports_.erase(found);
    }
    return ended;
  }

  // Those that have not ended and are not exported yet.
  std::vector<std::pair<ExportId, Details>> Unfinished() const {
    std::vector<std::pair<ExportId, Details>> unfinished;
    for (const auto& [id, entry] : exports_) {
      if (!entry.ended && entry.stage != Stage::kExported)
        unfinished.emplace_back(id, entry.details);
    }
    return unfinished;
  }
  // Calls `visit` with each whose memory is in use, or will be.
  template <typename Visit>
  void ForEachUsingMemory(const Visit& visit) const {
    for (const auto& [id, entry] : exports_) {
      if (entry.stage != Stage::kExported) visit(entry.details);
    }
  }

 private:
  enum class Stage { kWaiting, kRunning, kExported };
  struct Entry {
    Details details;
    Stage stage = Stage::kWaiting;
    bool ended = false;  // while it is running
  };

  std::map<ExportId, Entry> exports_;
};

}  // namespace tenure
