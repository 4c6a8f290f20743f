#pragma once

#include <vector>

#include "core/lease/lease_table.h"
#include "core/store/session.h"

namespace tenure {

// Collects what Sessions are to be told while a lock is held, and tells it once it is not.
// Thread-compatible.
class Outbox {
 public:
  explicit Outbox(SessionEvents& events) : events_(events) {}

  void AddRecalls(std::vector<Share> shares) {
    recalls_.insert(recalls_.end(), shares.begin(), shares.end());
  }
  void AddExpired(std::vector<Lease> leases) {
    expired_.insert(expired_.end(), leases.begin(), leases.end());
  }

  bool empty() const { return recalls_.empty() && expired_.empty(); }

  // REQUIRES: the caller holds no lock.
  void Send(Duration answer_within) {
    for (const Lease& lease : expired_) {
      events_.OnLeaseExpired(lease.session, lease.id, lease.region);
    }
    for (const Share& share : recalls_) {
      events_.OnRecall(share.session, share.serial, share.region, answer_within);
    }
    expired_.clear();
    recalls_.clear();
  }

 private:
  SessionEvents& events_;
  std::vector<Share> recalls_;
  std::vector<Lease> expired_;
};

}  // namespace tenure
