#include <absl/strings/str_cat.h>
#include <utility>

#include "core/store/runtime_store.h"

namespace tenure {
namespace {

// Bounds how late a call sees that its caller has left, or that Segments have gone.
constexpr Duration kLookAround = std::chrono::milliseconds(5);

}  // namespace

void RuntimeStore::SetTimes(const RuntimeStoreTimes& times) {
  const MutexLock lock(mutex_);
  times_ = times;
}

void RuntimeStore::SetCordoned(bool cordoned) {
  const MutexLock lock(mutex_);
  cordoned_ = cordoned;
}

bool RuntimeStore::cordoned() const {
  const MutexLock lock(mutex_);
  return cordoned_;
}

Status RuntimeStore::RefuseCordoned(const PoolRequest& request) const {
  const std::string& device = device_.info().name;
  const Bytes needed = Rounded(request);
  const Ledger ledger = LedgerNow();
  const std::string hint = absl::StrCat(
      "a request that names no device goes to one that is not cordoned, if there is"
      " one; `tenurectl uncordon ",
      device, "` makes it serve new sessions again");
  return Error(Reason::kCordoned,
               absl::StrCat(device, " is cordoned and opens no new pool; ", hint, "; needed ",
                            FormatBytes(needed), ", free ", FormatBytes(ledger.free())),
               {{"device", device},
                {"needed_bytes", absl::StrCat(needed.count())},
                {"capacity_bytes", absl::StrCat(ledger.capacity.count())},
                {"free_bytes", absl::StrCat(ledger.free().count())},
                {"hint", hint}});
}

void RuntimeStore::RecallIdle() {
  Outbox outbox(events_);
  Duration answer_within{};
  {
    const MutexLock lock(mutex_);
    Recall(pools_.Unused(), outbox);
    answer_within = times_.recall_wait;
    Changed();
  }
  outbox.Send(answer_within);
}

void RuntimeStore::AskForGranted() {
  Outbox outbox(events_);
  {
    const MutexLock lock(mutex_);
    for (const PoolTable::Holding& holding : pools_.Holdings()) {
      if (!holding.live || holding.bytes.askable().zero()) continue;
      outbox.AddMemoryWanted(holding.session, holding.pool, holding.bytes.askable());
    }
  }
  outbox.Send(/*answer_within=*/{});
}

Bytes RuntimeStore::Trim(const CallLimits& limits) {
  MutexLock lock(mutex_);
  Bytes given_back;
  std::vector<Segment> cached = arena_.TakeCachedBefore(kNever);
  for (const Segment& segment : cached) given_back += segment.size();
  leaving_.Add(std::move(cached));
  while (!arena_.leaving().zero() && limits.Check(clock_.Now()).ok() && !closing_) {
    trimmed_.WaitFor(mutex_, kLookAround);
  }
  return given_back;
}

std::vector<RuntimeStore::PoolHolder> RuntimeStore::Holders() const {
  const MutexLock lock(mutex_);
  std::vector<PoolHolder> holders;
  for (const PoolTable::Holding& holding : pools_.Holdings()) {
    const PoolBytes& bytes = holding.bytes;
    const Bytes held = holding.live ? bytes.blocks + bytes.unanswered : bytes.segments;
    const auto identity = identities_.find(holding.session);
    if (held.zero() || identity == identities_.end()) continue;
    holders.push_back({.session = holding.session,
                       .identity = identity->second,
                       .held = held,
                       .quarantined = !holding.live || bytes.blocks.zero()});
  }
  return holders;
}

}  // namespace tenure
