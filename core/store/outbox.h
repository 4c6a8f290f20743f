#pragma once

#include <utility>
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
  void AddLost(const std::vector<Lease>& leases, Reason reason) {
    for (const Lease& lease : leases) lost_.emplace_back(lease, reason);
  }

  void AddFailedExport(SessionId session, ExportId id, const Status& status) {
    failed_exports_.push_back({session, id, status});
  }

  bool empty() const { return recalls_.empty() && lost_.empty() && failed_exports_.empty(); }

  // REQUIRES: the caller holds no lock.
  void Send(Duration answer_within) {
    for (const FailedExport& failed : failed_exports_) {
      events_.OnExported(failed.session, failed.id, failed.status);
    }
    for (const auto& [lease, reason] : lost_) {
      events_.OnLeaseLost(lease.session, lease.id, lease.region, reason);
    }
    for (const Share& share : recalls_) {
      events_.OnRecall(share.session, share.serial, share.region, answer_within);
    }
    failed_exports_.clear();
    lost_.clear();
    recalls_.clear();
  }

 private:
  struct FailedExport {
    SessionId session;
    ExportId id;
    Status status;
  };

  SessionEvents& events_;
  std::vector<FailedExport> failed_exports_;
  std::vector<Share> recalls_;
  std::vector<std::pair<Lease, Reason>> lost_;
};

}  // namespace tenure
