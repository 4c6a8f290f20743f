#include "core/base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <utility>

namespace tenure {
namespace {

int OpenNull() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFdTest, ClosesOnDestruction) {
  const int fd = OpenNull();
  { const UniqueFd owner(fd); }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(UniqueFdTest, AMoveLeavesOneOwner) {
  UniqueFd first(OpenNull());
  const int fd = first.get();
  UniqueFd second(std::move(first));
  EXPECT_EQ(second.get(), fd);
  UniqueFd third(OpenNull());
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_FALSE(IsOpen(replaced));
  EXPECT_TRUE(IsOpen(fd));
  third.Reset();
  EXPECT_FALSE(IsOpen(fd));
  EXPECT_FALSE(third.valid());
}

TEST(UniqueFdTest, ReleaseGivesUpTheDescriptorOpen) {
  UniqueFd owner(OpenNull());
  const UniqueFd other(owner.Release());
  EXPECT_FALSE(owner.valid());
  EXPECT_TRUE(IsOpen(other.get()));
}

}  // namespace
}  // namespace tenure
