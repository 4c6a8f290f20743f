#include "core/device/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/host_device.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

constexpr char kV2Mount[] = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kV1Mount[] = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

// A machine of files: 8 GiB available, and whatever cgroups a test writes.
class HostMemoryTest : public testing::Test {
 protected:
  HostMemoryTest() {
    root_.WriteFile("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable:    8388608 kB\n");
  }

  void SetOwn(const std::string& cgroup, const std::string& mountinfo) {
    root_.WriteFile("proc/self/cgroup", cgroup);
    root_.WriteFile("proc/self/mountinfo", mountinfo);
  }
  // Writes files of the cgroup at `path` below /sys/fs/cgroup.
  void Write(const std::string& path, const std::string& file, Bytes value) {
    root_.WriteFile("sys/fs/cgroup" + path + "/" + file, std::to_string(value.count()) + "\n");
  }
  void WriteText(const std::string& path, const std::string& file, const std::string& text) {
    root_.WriteFile("sys/fs/cgroup" + path + "/" + file, text);
  }
  StatusOr<Bytes> Available() const { return HostMemory(root_.path()).Available(); }

  TempDir root_;
};

TEST_F(HostMemoryTest, WithoutCgroupsTheMachineDecides) { EXPECT_EQ(*Available(), GiB(8)); }

TEST_F(HostMemoryTest, ALimitLeavesWhatIsNotUsedOfIt) {
  SetOwn("0::/a\n", kV2Mount);
  Write("/a", "memory.max", GiB(4));
  Write("/a", "memory.current", GiB(1));
  EXPECT_EQ(*Available(), GiB(3));
}

TEST_F(HostMemoryTest, TheMachineDecidesWhereItHasLessThanTheLimitLeaves) {
  SetOwn("0::/a\n", kV2Mount);
  Write("/a", "memory.max", GiB(64));
  Write("/a", "memory.current", GiB(1));
  EXPECT_EQ(*Available(), GiB(8));
}

TEST_F(HostMemoryTest, CachedFilesCountAsLeft) {
  SetOwn("0::/a\n", kV2Mount);
  Write("/a", "memory.max", GiB(4));
  Write("/a", "memory.current", GiB(4));
  WriteText("/a", "memory.stat",
            "anon 1\ninactive_anon 999999999\ninactive_file 1073741824\nactive_file 536870912\n");
  EXPECT_EQ(*Available(), MiB(1536));
}

TEST_F(HostMemoryTest, TheTightestCgroupOnTheWayToTheRootDecides) {
  SetOwn("0::/a/b/c\n", kV2Mount);
  WriteText("/a/b/c", "memory.max", "max\n");
  Write("/a/b", "memory.max", GiB(6));
  Write("/a/b", "memory.current", GiB(1));
  Write("/a", "memory.max", GiB(7));
  Write("/a", "memory.current", GiB(5));
  EXPECT_EQ(*Available(), GiB(2));
}

TEST_F(HostMemoryTest, TheThrottlingLimitCountsToo) {
  SetOwn("0::/a\n", kV2Mount);
  WriteText("/a", "memory.max", "max\n");
  Write("/a", "memory.high", GiB(2));
  Write("/a", "memory.current", GiB(1));
  EXPECT_EQ(*Available(), GiB(1));
}

TEST_F(HostMemoryTest, ACgroupOverItsLimitLeavesNothing) {
  SetOwn("0::/a\n", kV2Mount);
  Write("/a", "memory.max", GiB(1));
  Write("/a", "memory.current", GiB(2));
  EXPECT_EQ(*Available(), Bytes(0));
}

TEST_F(HostMemoryTest, VersionOneIsReadByItsOwnNames) {
  SetOwn("5:cpu:/x\n4:memory:/a\n0::/\n", kV1Mount);
  Write("/memory/a", "memory.limit_in_bytes", GiB(4));
  Write("/memory/a", "memory.usage_in_bytes", GiB(3));
  WriteText("/memory/a", "memory.stat",
            "inactive_file 1\nactive_file 1\ntotal_inactive_file 1073741824\n"
            "total_active_file 0\n");
  Write("/memory", "memory.limit_in_bytes", Bytes(9223372036854771712U));
  Write("/memory", "memory.usage_in_bytes", GiB(15));
  EXPECT_EQ(*Available(), GiB(2));
}

// A container without a cgroup namespace is told its path outside, and sees only its own cgroup.
TEST_F(HostMemoryTest, AContainerThatIsToldItsPathOutsideFindsItsOwnCgroup) {
  SetOwn("0::/docker/abc\n", "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  Write("", "memory.max", GiB(1));
  Write("", "memory.current", MiB(512));
  EXPECT_EQ(*Available(), MiB(512));
}

TEST_F(HostMemoryTest, APathOutsideTheMountIsNotFollowed) {
  SetOwn("0::/../other\n", kV2Mount);
  Write("/../other", "memory.max", MiB(1));
  EXPECT_EQ(*Available(), GiB(8));
}

TEST_F(HostMemoryTest, AHierarchyMountedElsewhereIsFoundThere) {
  SetOwn("0::/a\n", "30 23 0:26 / /mnt/cg rw shared:4 master:1 - cgroup2 none rw\n");
  root_.WriteFile("mnt/cg/a/memory.max", "2147483648\n");
  root_.WriteFile("mnt/cg/a/memory.current", "0\n");
  EXPECT_EQ(*Available(), GiB(2));
}

TEST_F(HostMemoryTest, GarbageIsNoLimit) {
  SetOwn("nonsense\n::::\n0::/a\n", std::string("x\n- - -\n\n") + kV2Mount);
  WriteText("/a", "memory.max", "-5 apples\n");
  EXPECT_EQ(*Available(), GiB(8));
}

TEST_F(HostMemoryTest, TheCgroupDecidesAloneWhereTheMachineCannotBeRead) {
  root_.WriteFile("proc/meminfo", "MemTotal: 1 kB\n");
  SetOwn("0::/a\n", kV2Mount);
  Write("/a", "memory.max", GiB(1));
  Write("/a", "memory.current", Bytes(0));
  EXPECT_EQ(*Available(), GiB(1));
}

TEST(BareHostMemoryTest, WithNothingToReadItSaysSo) {
  const TempDir empty;
  const StatusOr<Bytes> available = HostMemory(empty.path()).Available();
  EXPECT_TRUE(HasReason(available.status(), Reason::kBackend));
}

TEST(AvailableHostMemoryTest, ThisMachineHasSome) {
  const StatusOr<Bytes> available = AvailableHostMemory();
  ASSERT_TRUE(available.ok()) << available.status();
  EXPECT_GT(*available, MiB(1));
}

}  // namespace
}  // namespace tenure
