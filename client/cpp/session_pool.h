#pragma once

#include <absl/status/statusor.h>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "client/cpp/connection.h"
#include "client/cpp/local_pool.h"
#include "client/cpp/segment_source.h"
#include "client/cpp/session_pools.h"
#include "tenure/buffer_pool.h"

namespace tenure::client {

// Between a LocalPool and the session that its segments come from: takes what the one lacks from
// the daemon, and tells it what the daemon says. What is left at the end goes back. Thread-safe.
class SessionPool final : public SegmentSource, public PoolListener {
 public:
  // Opens a pool on a device. Errors as in Client::OpenPool.
  static absl::StatusOr<std::shared_ptr<LocalPool>> Open(std::shared_ptr<Connection> connection,
                                                         const PoolOptions& options,
                                                         Duration timeout, Deadline deadline,
                                                         const std::stop_token& cancel);
  ~SessionPool() override;

  absl::StatusOr<Grown> Grow(BufferKind kind, uint64_t bytes, Deadline deadline,
                             const std::stop_token& cancel) override;
  void Shrink(std::vector<uint64_t> offsets) override;
  absl::StatusOr<Granted> AcquireBuffer(uint64_t bytes, uint64_t alignment, Deadline deadline,
                                        const std::stop_token& cancel) override;
  void ReleaseBuffers(const std::vector<uint64_t>& buffer_ids) override;

  void OnMemoryWanted(uint64_t bytes) override;
  void OnPoolLost(const std::string& reason) override;
  void OnSweep(Instant now) override;

 private:
  SessionPool(std::shared_ptr<Connection> connection, const PoolOptions& options)
      : connection_(std::move(connection)), options_(options) {}

  const std::shared_ptr<Connection> connection_;
  const PoolOptions options_;
  PoolSpec pool_;                   // set by Open
  std::weak_ptr<LocalPool> local_;  // likewise

  std::mutex mutex_;
  std::set<uint64_t> segments_;  // guarded by mutex_: offsets of what came and has not gone back
};

}  // namespace tenure::client
