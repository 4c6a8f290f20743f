#include "client/cpp/mailbox.h"

#include <cstdint>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace tenure::client {

Mailbox::Mailbox() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Mailbox::Wake() {
  const uint64_t one = 1;
  // A full counter wakes just as well.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void Mailbox::Post(Letter letter) {
  {
    const std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
  }
  Wake();
}

std::deque<Mailbox::Letter> Mailbox::TakeAll() {
  uint64_t wakes = 0;
  [[maybe_unused]] const ssize_t drained = read(wake_.get(), &wakes, sizeof(wakes));
  const std::lock_guard lock(mutex_);
  return std::exchange(letters_, {});
}

}  // namespace tenure::client
