#pragma once

#include <map>
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
  void AddPoolRecall(SessionId session, PoolId pool, ShareSerial share) {
    pool_recalls_[{session, pool}].push_back(share);
  }
  void AddMemoryWanted(SessionId session, PoolId pool, Bytes bytes) {
    wanted_.push_back({session, pool, bytes});
  }
  void AddPoolLost(SessionId session, PoolId pool, Reason reason) {
    lost_pools_.push_back({session, pool, reason});
  }

  bool empty() const {
    return recalls_.empty() && lost_.empty() && failed_exports_.empty() && pool_recalls_.empty() &&
           wanted_.empty() && lost_pools_.empty();
  }

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
    for (const LostPool& lost : lost_pools_) {
      events_.OnPoolLost(lost.session, lost.pool, lost.reason);
    }
    for (const auto& [key, shares] : pool_recalls_) {
      events_.OnPoolRecall(key.first, key.second, shares, answer_within);
    }
    for (const Wanted& wanted : wanted_) {
      events_.OnMemoryWanted(wanted.session, wanted.pool, wanted.bytes);
    }
    failed_exports_.clear();
    lost_pools_.clear();
    pool_recalls_.clear();
    wanted_.clear();
    lost_.clear();
    recalls_.clear();
  }

 private:
  struct FailedExport {
    SessionId session;
    ExportId id;
    Status status;
  };

  struct LostPool {
    SessionId session;
    PoolId pool;
    Reason reason;
  };
  struct Wanted {
    SessionId session;
    PoolId pool;
    Bytes bytes;
  };

  SessionEvents& events_;
  std::vector<FailedExport> failed_exports_;
  std::vector<LostPool> lost_pools_;
  std::map<std::pair<SessionId, PoolId>, std::vector<ShareSerial>> pool_recalls_;
  std::vector<Wanted> wanted_;
  std::vector<Share> recalls_;
  std::vector<std::pair<Lease, Reason>> lost_;
};

}  // namespace tenure
