#include "core/store/device_store.h"

namespace tenure {

void DeviceStore::Note(Event event) {
  if (options_.event_log == nullptr) return;
  event.at = clock_.Now();
  event.device = device_.info().name;
  event.arena = "weights";
  event.ledger = LedgerNow();
  options_.event_log->Record(std::move(event));
}

void DeviceStore::Note(EventKind kind, RegionId region, SessionId session) {
  const Region* const found = regions_.Find(region);
  Note({.kind = kind,
        .session = session,
        .subject = found == nullptr ? "" : models_.FullNameOf(region),
        .bytes = found == nullptr ? Bytes() : found->bytes});
}

}  // namespace tenure
