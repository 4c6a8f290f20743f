#pragma once

#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/store/share_export.h"

namespace tenure {

// Who a client is: what the kernel says of it, and how it named itself.
struct SessionIdentity {
  std::string program;
  std::string instance;
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;                   // 0 if it cannot be seen
  std::vector<gid_t> groups = {};  // its supplementary ones
};

// What Sessions are told without asking. Called without any lock held; must not wait.
class SessionEvents {
 public:
  virtual ~SessionEvents() = default;

  // The Share is wanted back within `answer_within`.
  virtual void OnRecall(SessionId session, ShareSerial share, RegionId region,
                        Duration answer_within) = 0;
  // These Shares of Segments are, likewise.
  virtual void OnPoolRecall(SessionId session, PoolId pool, std::span<const ShareSerial> shares,
                            Duration answer_within) = 0;
  // Somebody lacks so many bytes, and the Session has Segments that were granted to it: it gives
  // back what it can do without.
  virtual void OnMemoryWanted(SessionId session, PoolId pool, Bytes bytes) = 0;
  // The lease on the Pool is over: LEASE_EXPIRED or DEVICE_LOST.
  virtual void OnPoolLost(SessionId session, PoolId pool, Reason reason) = 0;
  // LEASE_EXPIRED or DEVICE_LOST.
  virtual void OnLeaseLost(SessionId session, LeaseId lease, RegionId region, Reason reason) = 0;
  // What came of an export for the Session: a batch that may be sent, and EndExport is to be
  // called; or an error, and it has ended. Not told of one that ended before.
  virtual void OnExported(SessionId session, ExportId id, StatusOr<ExportedBatch> batch) = 0;
};

}  // namespace tenure
