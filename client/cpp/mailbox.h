#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "client/cpp/unique_fd.h"

namespace tenure::client {

// What other threads want one thread to do, and a descriptor that ends its poll. Thread-safe.
class Mailbox {
 public:
  using Letter = std::function<void()>;

  Mailbox();

  // False if the process has no descriptor left.
  bool valid() const { return wake_.valid(); }
  // Readable after a Wake or a Post, until TakeAll.
  int fd() const { return wake_.get(); }

  void Wake();
  void Post(Letter letter);
  // In the order in which they were posted.
  std::deque<Letter> TakeAll();

 private:
  const UniqueFd wake_;
  std::mutex mutex_;
  std::deque<Letter> letters_;  // guarded by mutex_
};

}  // namespace tenure::client
