// Runtime memory as clients without the library see it: what they can do with its fds, and what the
// daemon asks of them.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <gtest/gtest.h>
#include <set>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "core/base/unique_fd.h"
#include "tests/client/eventually.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"
#include "tests/e2e/wire_client.h"

namespace tenure {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSegment = 2 * kMiB;
constexpr uint64_t kRuntime = 16 * kMiB;
constexpr auto kPatience = std::chrono::seconds(20);

std::vector<uint64_t> Offsets(uint64_t first, uint64_t count) {
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < count; ++i) offsets.push_back(first + i * kSegment);
  return offsets;
}

// A segment, mapped for reading and writing.
class MappedSegment {
 public:
  explicit MappedSegment(const UniqueFd& fd)
      : base_(mmap(nullptr, kSegment, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0)) {
    if (base_ == MAP_FAILED) throw std::runtime_error("a segment cannot be mapped");
  }
  ~MappedSegment() { munmap(base_, kSegment); }
  MappedSegment(const MappedSegment&) = delete;
  MappedSegment& operator=(const MappedSegment&) = delete;

  std::byte* base() const { return static_cast<std::byte*>(base_); }

 private:
  void* const base_;
};

class BufferWireTest : public ::testing::Test {
 protected:
  explicit BufferWireTest(const std::string& cache_ttl = "never")
      : daemon_(
            {.runtime = "16MiB", .runtime_segment_size = "2MiB", .runtime_cache_ttl = cache_ttl}) {}

  Scrape Balanced() const {
    Scrape scrape = Scrape::Of(daemon_.metrics_address());
    EXPECT_EQ(scrape.Imbalance(), "");
    return scrape;
  }
  uint64_t Runtime(const std::string& state) const { return Balanced().Memory(state, "runtime"); }

  const Tenured daemon_;
};

// Field case 34.
TEST_F(BufferWireTest, EveryStepOfABuffersLifeMovesItsBytesFromOneStateToTheNext) {
  WireClient client(daemon_.directory());
  const auto expect = [this](uint64_t leased, uint64_t padding, uint64_t pooled, uint64_t buffers) {
    const Scrape scrape = Balanced();
    EXPECT_EQ(scrape.Memory("leased", "runtime"), leased);
    EXPECT_EQ(scrape.Memory("padding", "runtime"), padding);
    EXPECT_EQ(scrape.Memory("pooled", "runtime"), pooled);
    EXPECT_EQ(scrape.Memory("cached", "runtime"), 0u);
    EXPECT_EQ(scrape.Memory("unbacked", "runtime"), kRuntime - leased - padding - pooled);
    EXPECT_EQ(scrape.Value("tenure_buffers"), buffers);
  };
  expect(0, 0, 0, 0);
  const auto small = client.AcquireBuffers({1000, 256});
  expect(1256, 24, kSegment - 1280, 2);
  const auto large = client.AcquireBuffers({3 * kMiB});
  expect(3 * kMiB + 1256, 24, 2 * kSegment - 3 * kMiB - 1280, 3);
  client.ReleaseBuffers(small);
  expect(3 * kMiB, 0, 2 * kSegment - 3 * kMiB, 1);
  client.ReleaseBuffers(large);
  expect(0, 0, 2 * kSegment, 0);
  // Out of what the pool has already.
  const auto grown = client.GrowPool(kSegment);
  expect(kSegment, 0, kSegment, 0);
  client.ShrinkPool(grown.pool().pool_id(), Offsets(grown.offset(), 1));
  EXPECT_EQ(Runtime("leased"), 0u);
  EXPECT_EQ(Runtime("cached") + Runtime("pooled"), 2 * kSegment);
}

TEST_F(BufferWireTest, UnusedSegmentsAreWantedBackForWhoWaitsAndGoToItOnceUnmapped) {
  WireClient holder(daemon_.directory());
  const WireClient waiter(daemon_.directory());
  const auto all = holder.AcquireBuffers({kRuntime});
  std::vector<UniqueFd> fds;
  const auto serials = holder.FetchPool(all.pool().pool_id(), Offsets(0, 8), fds);
  holder.ReleaseBuffers(all);
  auto waiting = std::async(
      std::launch::async, [&] { return waiter.AcquireBuffers({kRuntime - kSegment}, kPatience); });
  std::set<uint64_t> recalled;
  while (recalled.size() < 7) {
    const auto heard = holder.handle().Hear();
    ASSERT_TRUE(heard.has_value() && heard->packet.has_pool_recall());
    const auto& each = heard->packet.pool_recall().share_serials();
    recalled.insert(each.begin(), each.end());
  }
  EXPECT_TRUE(std::includes(serials.begin(), serials.end(), recalled.begin(), recalled.end()));
  fds.clear();
  holder.handle().SayUnmapped({recalled.begin(), recalled.end()});
  EXPECT_EQ(waiting.get().buffers(0).size(), kRuntime - kSegment);
  EXPECT_EQ(Balanced().Value("tenure_pool_recalls_total"), 7u);
}

TEST_F(BufferWireTest, WhoHoldsWholeSegmentsIsAskedForThem) {
  WireClient holder(daemon_.directory());
  const WireClient waiter(daemon_.directory());
  const auto grown = holder.GrowPool(kRuntime);
  auto waiting =
      std::async(std::launch::async, [&] { return waiter.AcquireBuffers({3 * kMiB}, kPatience); });
  const auto heard = holder.handle().Hear();
  ASSERT_TRUE(heard.has_value() && heard->packet.has_memory_wanted());
  EXPECT_EQ(heard->packet.memory_wanted().pool_id(), grown.pool().pool_id());
  EXPECT_EQ(heard->packet.memory_wanted().bytes(), 2 * kSegment);
  holder.ShrinkPool(grown.pool().pool_id(), Offsets(grown.offset(), 2));
  EXPECT_EQ(waiting.get().buffers_size(), 1);
}

class BufferFdTest : public BufferWireTest {
 protected:
  explicit BufferFdTest(const std::string& cache_ttl = "never") : BufferWireTest(cache_ttl) {}
};

// Field case 41.
TEST_F(BufferFdTest, RuntimeMemoryIsWrittenAndKeepsItsSizeAndItsSeals) {
  WireClient client(daemon_.directory());
  const auto all = client.AcquireBuffers({kRuntime});
  std::vector<UniqueFd> fds;
  client.FetchPool(all.pool().pool_id(), Offsets(0, 8), fds);
  ASSERT_EQ(fds.size(), 8u);
  for (const UniqueFd& given : fds) {
    const UniqueFd reopened(
        open(("/proc/self/fd/" + std::to_string(given.get())).c_str(), O_RDWR | O_CLOEXEC));
    for (const UniqueFd* fd : {&given, &reopened}) {
      if (!fd->valid()) continue;
      const MappedSegment segment(*fd);
      memset(segment.base(), 3, kSegment);
      EXPECT_EQ(segment.base()[kSegment - 1], std::byte{3});
      const auto size = static_cast<off_t>(kSegment);
      const char byte = 'x';
      EXPECT_LT(pwrite(fd->get(), &byte, 1, size), 0);
      EXPECT_NE(ftruncate(fd->get(), 0), 0);
      EXPECT_NE(ftruncate(fd->get(), size + 4096), 0);
      // Some would keep the next one, or the daemon, from writing.
      for (const int seal : {F_SEAL_WRITE, F_SEAL_FUTURE_WRITE, F_SEAL_SEAL}) {
        EXPECT_NE(fcntl(fd->get(), F_ADD_SEALS, seal), 0);
      }
      struct stat file {};
      ASSERT_EQ(fstat(fd->get(), &file), 0);
      EXPECT_EQ(file.st_size, size);
    }
  }
}

TEST_F(BufferFdTest, WhoeverWritesPastItsBufferChangesItsOwnMemoryOnly) {
  WireClient careless(daemon_.directory());
  WireClient careful(daemon_.directory());
  std::vector<UniqueFd> theirs;
  std::vector<UniqueFd> own;
  const auto bad = careless.AcquireBuffers({100, 100});
  const auto good = careful.AcquireBuffers({100, 100});
  careless.FetchPool(bad.pool().pool_id(), Offsets(0, 1), theirs);
  careful.FetchPool(good.pool().pool_id(), Offsets(0, 1), own);
  // Not even the same offsets are the same memory.
  struct stat one {};
  struct stat other {};
  ASSERT_EQ(fstat(theirs[0].get(), &one), 0);
  ASSERT_EQ(fstat(own[0].get(), &other), 0);
  EXPECT_NE(one.st_ino, other.st_ino);
  const MappedSegment segment(own[0]);
  memset(segment.base(), 1, kSegment);
  memset(MappedSegment(theirs[0]).base(), 2, kSegment);
  EXPECT_TRUE(std::all_of(segment.base(), segment.base() + kSegment,
                          [](std::byte byte) { return byte == std::byte{1}; }));
  // And what is another's cannot be had.
  EXPECT_THROW(careless.FetchPool(good.pool().pool_id(), Offsets(0, 1), theirs),
               std::runtime_error);
}

// The proof of death is the process's, and a child is another process: within a tenant its memory
// is the next one's at once. Field case 16.
TEST_F(BufferFdTest, FdsThatAForkedChildKeptDoNotKeepMemoryFromTheNextOne) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    WireClient client(daemon_.directory());
    const auto all = client.AcquireBuffers({kRuntime});
    std::vector<UniqueFd> fds;
    client.FetchPool(all.pool().pool_id(), Offsets(0, 8), fds);
    const pid_t child = fork();
    while (child == 0) pause();
    if (write(ready[1], &child, sizeof(child)) < 0) _exit(1);
    while (true) pause();
  }
  pid_t child = 0;
  ASSERT_EQ(read(ready[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  EXPECT_EQ(Runtime("leased"), kRuntime);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_TRUE(Eventually([&] { return Runtime("cached") == kRuntime; }));
  WireClient heir(daemon_.directory());
  EXPECT_EQ(heir.AcquireBuffers({kRuntime}).buffers(0).size(), kRuntime);
  kill(child, SIGKILL);
  close(ready[0]);
  close(ready[1]);
}

class BufferLeakTest : public BufferFdTest {
 protected:
  BufferLeakTest() : BufferFdTest("100ms") {}
};

// Field case 17: what left the arena and is still pinned is not free.
TEST_F(BufferLeakTest, WhatWentBackToTheSystemAndIsStillPinnedIsStranded) {
  std::vector<UniqueFd> leaked;
  {
    WireClient client(daemon_.directory());
    const auto some = client.AcquireBuffers({3 * kSegment});
    const auto serials = client.FetchPool(some.pool().pool_id(), Offsets(0, 3), leaked);
    client.ReleaseBuffers(some);
    client.handle().SayUnmapped(serials);
    EXPECT_TRUE(Eventually([&] { return Runtime("stranded") == 3 * kSegment; }));
    EXPECT_EQ(Runtime("unbacked"), kRuntime - 3 * kSegment);
    EXPECT_THROW(client.AcquireBuffers({kRuntime}), std::runtime_error);
  }
  leaked.clear();
  EXPECT_TRUE(Eventually([&] { return Runtime("unbacked") == kRuntime; }));
}

}  // namespace
}  // namespace tenure
