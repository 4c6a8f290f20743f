#include "core/device/pin_watch.h"

#include <array>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/core/device/process_view.h"

// Field case 17: whatever somebody keeps of memory that the daemon has given back, it is pinned
// until the last of it is gone.

namespace tenure {
namespace {

constexpr Bytes kSize = MiB(2);

class PinWatchTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(watch_.works()); }

  static UniqueFd MakeMemfd() {
    UniqueFd memfd(::memfd_create("tenure-test", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(memfd.get(), static_cast<off_t>(kSize.count())), 0);
    return memfd;
  }
  void LetGo() { watch_.LetGo(std::move(memfd_), kSize); }
  UniqueFd Copy() const { return UniqueFd(::fcntl(memfd_.get(), F_DUPFD_CLOEXEC, 0)); }
  UniqueFd Reopen(int flags) const {
    const std::string path = "/proc/self/fd/" + std::to_string(memfd_.get());
    UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC));
    EXPECT_TRUE(fd.valid()) << std::strerror(errno);
    return fd;
  }
  // What the last look says.
  Bytes Pinned() {
    watch_.Look();
    return watch_.pinned();
  }

  PinWatch watch_;
  UniqueFd memfd_ = MakeMemfd();
};

TEST_F(PinWatchTest, WhatNobodyElseHasGoesAtOnce) {
  LetGo();
  EXPECT_EQ(watch_.pinned(), Bytes(0));
}

TEST_F(PinWatchTest, AnFdPinsHoweverItWasOpened) {
  std::vector<UniqueFd> kept;
  kept.push_back(Copy());
  for (const int flags : {O_RDWR, O_RDONLY, O_PATH}) kept.push_back(Reopen(flags));
  LetGo();
  for (UniqueFd& fd : kept) {
    EXPECT_EQ(Pinned(), kSize);
    fd.Reset();
  }
  EXPECT_EQ(Pinned(), Bytes(0));
}

TEST_F(PinWatchTest, AMapPinsWithoutAnFd) {
  UniqueFd copy = Copy();
  void* const map = ::mmap(nullptr, kSize.count(), PROT_READ, MAP_SHARED, copy.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  copy.Reset();
  LetGo();
  EXPECT_EQ(Pinned(), kSize);
  ::munmap(map, kSize.count());
  EXPECT_EQ(Pinned(), Bytes(0));
}

TEST_F(PinWatchTest, AnFdThatNobodyHasReceivedYetPins) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  UniqueFd sender(ends[0]);
  UniqueFd receiver(ends[1]);
  UniqueFd copy = Copy();
  const int sent = copy.get();
  char byte = 0;
  iovec payload{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &sent, sizeof(sent));
  ASSERT_EQ(::sendmsg(sender.get(), &message, 0), 1) << std::strerror(errno);
  copy.Reset();
  LetGo();
  EXPECT_EQ(Pinned(), kSize);
  sender.Reset();
  receiver.Reset();
  EXPECT_EQ(Pinned(), Bytes(0));
}

TEST_F(PinWatchTest, AnotherProcessPinsUntilItEnds) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  LetGo();
  EXPECT_EQ(Pinned(), kSize);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(Pinned(), Bytes(0));
}

TEST_F(PinWatchTest, WhatIsPinnedAddsUp) {
  UniqueFd first = Copy();
  LetGo();
  memfd_ = MakeMemfd();
  UniqueFd second = Copy();
  LetGo();
  EXPECT_EQ(Pinned(), kSize * 2);
  first.Reset();
  EXPECT_EQ(Pinned(), kSize);
  second.Reset();
  EXPECT_EQ(Pinned(), Bytes(0));
}

TEST_F(PinWatchTest, ManyThreadsLetGoAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<std::vector<UniqueFd>> kept(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::vector<UniqueFd>& keeping : kept) {
    threads.emplace_back([this, &keeping] {
      for (int i = 0; i < kRounds; ++i) {
        UniqueFd memfd = MakeMemfd();
        if (i % 2 == 0) keeping.emplace_back(::fcntl(memfd.get(), F_DUPFD_CLOEXEC, 0));
        watch_.LetGo(std::move(memfd), kSize);
        watch_.Look();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Pinned(), kSize * (kThreads * kRounds / 2));
  kept.clear();
  EXPECT_EQ(Pinned(), Bytes(0));
  EXPECT_EQ(InotifyWatches(), 0U);
}

}  // namespace
}  // namespace tenure
