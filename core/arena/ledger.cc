#include "core/arena/ledger.h"

namespace tenure {
namespace {

bool IsPadded(Holding holding) {
  return holding != Holding::kRetained && holding != Holding::kLost;
}

}  // namespace

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
    case Holding::kLost:
      return lost;
  }
  TENURE_CHECK(false);
}

void Ledger::Add(Holding holding, Bytes bytes, Bytes requested) {
  if (!IsPadded(holding)) {
    Of(holding) += bytes;
    return;
  }
  Of(holding) += requested;
  padding += bytes - requested;
}

void Ledger::Remove(Holding holding, Bytes bytes, Bytes requested) {
  if (!IsPadded(holding)) {
    Of(holding) -= bytes;
    return;
  }
  Of(holding) -= requested;
  padding -= bytes - requested;
}

}  // namespace tenure
