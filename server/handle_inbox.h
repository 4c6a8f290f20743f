#pragma once

#include <tenure/v1/handle.pb.h>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/store/share_export.h"

namespace tenure {

// What other threads want the thread of the handle socket to do.
struct PostedPacket {
  SessionId session;
  v1::DaemonPacket packet;
};
struct PostedExport {
  SessionId session;
  ExportId id;
  StatusOr<ExportedBatch> batch;
};
struct PostedDrain {
  Duration deadline{};
};
struct PostedHeartbeatInterval {
  Duration interval{};
};
struct PostedStop {};
using HandlePost =
    std::variant<PostedPacket, PostedExport, PostedDrain, PostedHeartbeatInterval, PostedStop>;

// Carries posts to the thread of the handle socket, in order, and wakes it. Closed at first: what
// is posted while it is closed is dropped. Thread-safe; nothing here waits.
class HandleInbox {
 public:
  // False if there is no fd to be had.
  bool Open();
  void Close();

  void Post(HandlePost post);
  // Everything posted since the last call.
  std::vector<HandlePost> Take();

  // Readable while there is something to take. Stays the same from Open to Close.
  int event_fd() const { return event_fd_.get(); }

 private:
  UniqueFd event_fd_;  // changes only while the inbox is closed and nobody waits for it

  Mutex mutex_;
  bool open_ GUARDED_BY(mutex_) = false;
  std::vector<HandlePost> posts_ GUARDED_BY(mutex_);
};

}  // namespace tenure
