#include "client/cpp/host_mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <signal.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

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

TEST(HostMappingTest, StitchesSegmentsSideBySideInTheirOrder) {
  const std::shared_ptr<Mapping> mapping = *HostMapping::Reserve(6 * kMiB);
  EXPECT_EQ(reinterpret_cast<uint64_t>(mapping->base()) % (2 * kMiB), 0u);
  ASSERT_TRUE(mapping->Append(Segment(4 * kMiB, 'a'), 4 * kMiB).ok());
  EXPECT_FALSE(mapping->complete());
  ASSERT_TRUE(mapping->Append(Segment(2 * kMiB, 'b'), 2 * kMiB).ok());
  EXPECT_TRUE(mapping->complete());
  const std::string expected = std::string(4 * kMiB, 'a') + std::string(2 * kMiB, 'b');
  EXPECT_EQ(memcmp(mapping->base(), expected.data(), expected.size()), 0);
}

TEST(HostMappingTest, ShowsWhatIsWrittenToTheFileLater) {
  const UniqueFd segment = Segment(2 * kMiB, 'a');
  const std::shared_ptr<Mapping> mapping = *HostMapping::Reserve(2 * kMiB);
  ASSERT_TRUE(mapping->Append(UniqueFd(dup(segment.get())), 2 * kMiB).ok());
  ASSERT_EQ(pwrite(segment.get(), "z", 1, 100), 1);
  EXPECT_EQ(static_cast<char>(mapping->base()[100]), 'z');
}

TEST(HostMappingTest, ClosesTheFdOfEverySegment) {
  UniqueFd segment = Segment(2 * kMiB, 'a');
  const int number = segment.get();
  const std::shared_ptr<Mapping> mapping = *HostMapping::Reserve(2 * kMiB);
  ASSERT_TRUE(mapping->Append(std::move(segment), 2 * kMiB).ok());
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST(HostMappingTest, RefusesAFileThatIsShorterThanSaid) {
  const std::shared_ptr<Mapping> mapping = *HostMapping::Reserve(4 * kMiB);
  const absl::Status status = mapping->Append(Segment(2 * kMiB, 'a'), 4 * kMiB);
  EXPECT_EQ(ErrorReason(status), "PROTOCOL");
  EXPECT_EQ(mapping->mapped_bytes(), 0u);
}

TEST(HostMappingTest, RefusesASegmentThatDoesNotFit) {
  const std::shared_ptr<Mapping> mapping = *HostMapping::Reserve(2 * kMiB);
  EXPECT_FALSE(mapping->Append(Segment(4 * kMiB, 'a'), 4 * kMiB).ok());
  EXPECT_FALSE(mapping->Append(Segment(2 * kMiB, 'a'), 0).ok());
  EXPECT_FALSE(mapping->Append(Segment(2 * kMiB, 'a'), 100).ok());
}

TEST(HostMappingTest, RefusesARegionOfAbsurdSize) {
  EXPECT_FALSE(HostMapping::Reserve(0).ok());
  EXPECT_FALSE(HostMapping::Reserve(UINT64_MAX).ok());
}

TEST(HostMappingTest, AForkedChildDoesNotHaveTheMemory) {
  const std::shared_ptr<Mapping> mapping = *HostMapping::Reserve(2 * kMiB);
  ASSERT_TRUE(mapping->Append(Segment(2 * kMiB, 'a'), 2 * kMiB).ok());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    const volatile std::byte* const first = mapping->base();
    _exit(static_cast<int>(*first));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

TEST(HostMappingTest, GivesBytesFromAnyPlaceOfTheRegion) {
  const std::shared_ptr<Mapping> mapping = *HostMapping::Reserve(4 * kMiB);
  ASSERT_TRUE(mapping->Append(Segment(2 * kMiB, 'a'), 2 * kMiB).ok());
  ASSERT_TRUE(mapping->Append(Segment(2 * kMiB, 'b'), 2 * kMiB).ok());
  std::vector<std::byte> bytes(2);
  ASSERT_TRUE(mapping->CopyToHost(2 * kMiB - 1, bytes).ok());
  EXPECT_EQ(memcmp(bytes.data(), "ab", 2), 0);
  EXPECT_EQ(mapping->CopyToHost(4 * kMiB - 1, bytes).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(mapping->CopyToHost(UINT64_MAX, bytes).code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(mapping->CopyToHost(4 * kMiB, {}).ok());
}

TEST(HostMappingTest, IsReadOnly) {
  const std::shared_ptr<Mapping> mapping = *HostMapping::Reserve(2 * kMiB);
  ASSERT_TRUE(mapping->Append(Segment(2 * kMiB, 'a'), 2 * kMiB).ok());
  // The kernel refuses to read a file into it, without a fault that would end the test.
  const UniqueFd zero(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(read(zero.get(), const_cast<std::byte*>(mapping->base()), 1), -1);
  EXPECT_EQ(errno, EFAULT);
}

}  // namespace
}  // namespace tenure::client
