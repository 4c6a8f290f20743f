#include "core/arena/ledger.h"

namespace tenure {

double Ledger::fragmentation_ratio() const {
  if (free().zero()) return 0;
  return 1.0 - static_cast<double>(largest_free.count()) / static_cast<double>(free().count());
}

Bytes& Ledger::Of(Holding holding) {
  switch (holding) {
    case Holding::kLoading:
      return loading;
    case Holding::kLeased:
      return leased;
    case Holding::kQuarantined:
      return quarantined;
    case Holding::kIdle:
      return idle;
    case Holding::kRetained:
      return retained;
  }
  TENURE_CHECK(false);
}

void Ledger::Add(Holding holding, Bytes bytes, Bytes requested) {
  if (holding == Holding::kRetained) {
    retained += bytes;
    return;
  }
  Of(holding) += requested;
  padding += bytes - requested;
}

void Ledger::Remove(Holding holding, Bytes bytes, Bytes requested) {
  if (holding == Holding::kRetained) {
    retained -= bytes;
    return;
  }
  Of(holding) -= requested;
  padding -= bytes - requested;
}

}  // namespace tenure
