#pragma once

#include <absl/status/status.h>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <tenure/v1/buffer.pb.h>
#include <tenure/v1/lease.pb.h>
#include <thread>
#include <variant>

#include "client/cpp/handle_session.h"
#include "client/cpp/rpc.h"

namespace tenure::client {

// Releases that could not be made at once, because the call that granted ended without a reply or
// the daemon did not answer: repeated until the daemon answers or the session is over. What nobody
// releases would live as long as the session's heartbeats. Thread-safe.
class ReleaseQueue {
 public:
  using Release =
      std::variant<v1::ReleaseLeaseRequest, v1::ReleaseBuffersRequest, v1::ShrinkPoolRequest>;

  // Both outlive it.
  ReleaseQueue(Rpc& rpc, HandleSession& session) : rpc_(rpc), session_(session) {}
  // Waits for the attempt under way, a second at most; what is left ends with the session.
  ~ReleaseQueue();

  // Does not wait.
  void Add(Release release);
  // Waits until the daemon has answered everything, the session is over, or it is time.
  void Await(Deadline deadline);

 private:
  void Run();
  template <typename Request, typename Reply>
  absl::Status Call(grpc::Status (v1::LeaseService::Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, Reply*),
                    const Request& request);
  absl::Status Attempt(const v1::ReleaseLeaseRequest& request);
  absl::Status Attempt(const v1::ReleaseBuffersRequest& request);
  absl::Status Attempt(const v1::ShrinkPoolRequest& request);

  Rpc& rpc_;
  HandleSession& session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Release> releases_;  // guarded by mutex_
  bool closing_ = false;          // guarded by mutex_
  std::stop_source stop_;
  std::thread thread_;  // started when it is first needed, under mutex_
};

}  // namespace tenure::client
