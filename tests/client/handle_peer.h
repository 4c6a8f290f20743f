#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tenure/v1/handle.pb.h>
#include <thread>
#include <vector>

#include "client/cpp/handle_socket.h"
#include "client/cpp/unique_fd.h"

namespace tenure::client {

// The daemon's end of one handle socket, as far as a HandleSession needs one: greets, answers
// heartbeats and fetches at once, and remembers what it was told. Thread-safe.
class HandlePeer {
 public:
  // A region's segments: how to get an fd of each, and its size in bytes.
  struct Segment {
    std::function<UniqueFd()> fd;
    uint64_t bytes = 0;
  };

  // Listens at `path`.
  explicit HandlePeer(const std::string& path);
  // Hangs up.
  ~HandlePeer();
  HandlePeer(const HandlePeer&) = delete;
  HandlePeer& operator=(const HandlePeer&) = delete;

  // What a fetch for the lease gets, one segment in each batch. Every fetch from the first segment
  // on is another share; their serials count from 1.
  void Offer(uint64_t lease_id, uint64_t region_id, std::vector<Segment> segments);
  // What every fetch of a pool's segments gets: one of `bytes` for each offset, with an fd of it.
  // Each is a share; their serials go on from the last one.
  void OfferPool(uint64_t bytes, std::function<UniqueFd()> fd);
  // Called with each such answer before it is sent, to change it; false: it is not sent at all.
  // Must not call this object.
  using Edit = std::function<bool(v1::DaemonPacket& packet, std::vector<UniqueFd>& fds)>;
  void EditPoolBatches(Edit edit);
  // Anything.
  void Say(const v1::DaemonPacket& packet);
  // Heartbeats are heard, and not answered, from now on.
  void IgnoreHeartbeats();

  void Recall(uint64_t share_serial);
  // The newest share.
  void RecallLast();
  void HangUp();

  // What was said, in order, without hello and heartbeats: "fetch LEASE SEGMENT", "ack SERIAL
  // NEXT", "fetch-pool POOL OFFSETS", a number, "unmapped SERIAL", "goodbye".
  std::vector<std::string> Heard() const;
  size_t heartbeats() const;

 private:
  struct Offered {
    uint64_t region_id = 0;
    uint64_t share_serial = 0;
    std::vector<Segment> segments;
  };

  void Run();
  void Answer(const v1::ClientPacket& packet);
  void SendBatch(const v1::FetchShare& fetch);
  void SendPoolBatch(const v1::FetchPool& fetch);
  void Send(const v1::DaemonPacket& packet, const std::vector<UniqueFd>& fds = {});

  const UniqueFd listener_;
  mutable std::mutex mutex_;
  std::optional<HandleSocket> socket_;   // guarded by mutex_
  std::map<uint64_t, Offered> offered_;  // by lease; guarded by mutex_
  Segment pool_segment_;                 // guarded by mutex_
  Edit edit_;                            // guarded by mutex_
  bool ignore_heartbeats_ = false;       // guarded by mutex_
  uint64_t last_serial_ = 0;             // guarded by mutex_
  std::vector<std::string> heard_;       // guarded by mutex_
  size_t heartbeats_ = 0;                // guarded by mutex_
  bool over_ = false;                    // guarded by mutex_
  std::thread thread_;
};

}  // namespace tenure::client
