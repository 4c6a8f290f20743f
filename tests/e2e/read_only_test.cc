// What a client can do with the fds that it is given for weights: read.

#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "core/base/unique_fd.h"
#include "tenure/client.h"
#include "tests/e2e/models.h"
#include "tests/e2e/tenured.h"
#include "tests/e2e/wire_client.h"

namespace tenure {
namespace {

// A client that keeps the fds instead of only mapping them.
class ReadOnlyTest : public ::testing::Test {
 protected:
  ReadOnlyTest() {
    own_ = LoadAndLease(client_, "a", a_);
    wire_.Fetch(wire_.Acquire("a"), fds_);
  }

  static size_t SizeOf(const UniqueFd& fd) {
    struct stat file {};
    return fstat(fd.get(), &file) == 0 ? static_cast<size_t>(file.st_size) : 0;
  }
  // Opens the file behind the fd anew, for writing. Not valid if that is refused.
  static UniqueFd Reopen(const UniqueFd& fd) {
    return UniqueFd(
        open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDWR | O_CLOEXEC));
  }
  static bool Maps(const UniqueFd& fd, int protection) {
    void* const base = mmap(nullptr, SizeOf(fd), protection, MAP_SHARED, fd.get(), 0);
    if (base == MAP_FAILED) return false;
    munmap(base, SizeOf(fd));
    return true;
  }

  const Tenured daemon_;
  const Client client_ = daemon_.Connect();
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(12)}, 1);
  std::optional<WeightLease> own_;
  WireClient wire_{daemon_.directory()};
  std::vector<UniqueFd> fds_;
};

// Field case 41.
TEST_F(ReadOnlyTest, WeightsCanBeMappedForReadingOnly) {
  ASSERT_FALSE(fds_.empty());
  size_t seen = 0;
  for (const UniqueFd& fd : fds_) {
    EXPECT_TRUE(Maps(fd, PROT_READ));
    EXPECT_FALSE(Maps(fd, PROT_READ | PROT_WRITE));
    EXPECT_FALSE(Maps(fd, PROT_WRITE));
    void* const base = mmap(nullptr, SizeOf(fd), PROT_READ, MAP_SHARED, fd.get(), 0);
    ASSERT_NE(base, MAP_FAILED);
    EXPECT_NE(mprotect(base, SizeOf(fd), PROT_READ | PROT_WRITE), 0);
    EXPECT_NE(madvise(base, SizeOf(fd), MADV_REMOVE), 0);
    if (seen < own_->size_bytes()) {
      const size_t same = std::min<size_t>(SizeOf(fd), own_->size_bytes() - seen);
      EXPECT_EQ(memcmp(base, own_->base() + seen, same), 0);
    }
    seen += SizeOf(fd);
    munmap(base, SizeOf(fd));
  }
  EXPECT_GE(seen, own_->size_bytes());
}

// Field case 41.
TEST_F(ReadOnlyTest, NoWayOfOpeningWeightsAnewMakesThemWritable) {
  ASSERT_FALSE(fds_.empty());
  std::vector<const UniqueFd*> ways;
  std::vector<UniqueFd> reopened;
  for (const UniqueFd& fd : fds_) reopened.push_back(Reopen(fd));
  for (const UniqueFd& fd : fds_) ways.push_back(&fd);
  for (const UniqueFd& fd : reopened) {
    if (fd.valid()) ways.push_back(&fd);
  }
  const char byte = 'x';
  for (const UniqueFd* fd : ways) {
    const auto size = static_cast<off_t>(SizeOf(*fd));
    EXPECT_FALSE(Maps(*fd, PROT_READ | PROT_WRITE));
    EXPECT_LT(pwrite(fd->get(), &byte, 1, 0), 0);
    EXPECT_LT(pwrite(fd->get(), &byte, 1, size), 0);
    EXPECT_NE(ftruncate(fd->get(), 0), 0);
    EXPECT_NE(ftruncate(fd->get(), size + 4096), 0);
    EXPECT_NE(fallocate(fd->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
    EXPECT_NE(fallocate(fd->get(), FALLOC_FL_ZERO_RANGE, 0, 4096), 0);
    // No seal can be added, of which some would keep the daemon itself out.
    EXPECT_NE(fcntl(fd->get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
    EXPECT_NE(fcntl(fd->get(), F_ADD_SEALS, F_SEAL_SEAL), 0);
    EXPECT_EQ(static_cast<off_t>(SizeOf(*fd)), size);
  }
  EXPECT_TRUE(own_->valid());
  EXPECT_EQ(Difference(*own_, a_), "");
  EXPECT_TRUE(client_.List().ok());
}

}  // namespace
}  // namespace tenure
