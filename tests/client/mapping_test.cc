#include "client/cpp/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "tenure/errors.h"

namespace tenure::client {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A memfd full of one byte.
UniqueFd Segment(uint64_t bytes, char fill) {
  UniqueFd fd(memfd_create("segment", MFD_CLOEXEC));
  const std::string content(bytes, fill);
  EXPECT_EQ(write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(bytes));
  return fd;
}

TEST(MappingTest, StitchesSegmentsSideBySideInTheirOrder) {
  Mapping mapping = *Mapping::Reserve(6 * kMiB);
  EXPECT_EQ(reinterpret_cast<uint64_t>(mapping.base()) % (2 * kMiB), 0u);
  ASSERT_TRUE(mapping.Append(Segment(4 * kMiB, 'a'), 4 * kMiB).ok());
  EXPECT_FALSE(mapping.complete());
  ASSERT_TRUE(mapping.Append(Segment(2 * kMiB, 'b'), 2 * kMiB).ok());
  EXPECT_TRUE(mapping.complete());
  const std::string expected = std::string(4 * kMiB, 'a') + std::string(2 * kMiB, 'b');
  EXPECT_EQ(memcmp(mapping.base(), expected.data(), expected.size()), 0);
}

TEST(MappingTest, ShowsWhatIsWrittenToTheFileLater) {
  const UniqueFd segment = Segment(2 * kMiB, 'a');
  Mapping mapping = *Mapping::Reserve(2 * kMiB);
  ASSERT_TRUE(mapping.Append(UniqueFd(dup(segment.get())), 2 * kMiB).ok());
  ASSERT_EQ(pwrite(segment.get(), "z", 1, 100), 1);
  EXPECT_EQ(static_cast<char>(mapping.base()[100]), 'z');
}

TEST(MappingTest, ClosesTheFdOfEverySegment) {
  UniqueFd segment = Segment(2 * kMiB, 'a');
  const int number = segment.get();
  Mapping mapping = *Mapping::Reserve(2 * kMiB);
  ASSERT_TRUE(mapping.Append(std::move(segment), 2 * kMiB).ok());
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST(MappingTest, RefusesAFileThatIsShorterThanSaid) {
  Mapping mapping = *Mapping::Reserve(4 * kMiB);
  const absl::Status status = mapping.Append(Segment(2 * kMiB, 'a'), 4 * kMiB);
  EXPECT_EQ(ErrorReason(status), "PROTOCOL");
  EXPECT_EQ(mapping.mapped_bytes(), 0u);
}

TEST(MappingTest, RefusesASegmentThatDoesNotFit) {
  Mapping mapping = *Mapping::Reserve(2 * kMiB);
  EXPECT_FALSE(mapping.Append(Segment(4 * kMiB, 'a'), 4 * kMiB).ok());
  EXPECT_FALSE(mapping.Append(Segment(2 * kMiB, 'a'), 0).ok());
  EXPECT_FALSE(mapping.Append(Segment(2 * kMiB, 'a'), 100).ok());
}

TEST(MappingTest, RefusesARegionOfAbsurdSize) {
  EXPECT_FALSE(Mapping::Reserve(0).ok());
  EXPECT_FALSE(Mapping::Reserve(UINT64_MAX).ok());
}

TEST(MappingTest, AForkedChildDoesNotHaveTheMemory) {
  Mapping mapping = *Mapping::Reserve(2 * kMiB);
  ASSERT_TRUE(mapping.Append(Segment(2 * kMiB, 'a'), 2 * kMiB).ok());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    const volatile std::byte* const first = mapping.base();
    _exit(static_cast<int>(*first));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

TEST(MappingTest, IsReadOnly) {
  Mapping mapping = *Mapping::Reserve(2 * kMiB);
  ASSERT_TRUE(mapping.Append(Segment(2 * kMiB, 'a'), 2 * kMiB).ok());
  // The kernel refuses to read a file into it, without a fault that would end the test.
  const UniqueFd zero(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(read(zero.get(), const_cast<std::byte*>(mapping.base()), 1), -1);
  EXPECT_EQ(errno, EFAULT);
}

}  // namespace
}  // namespace tenure::client
