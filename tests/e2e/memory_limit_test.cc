// A daemon in a cgroup that may take less memory than the configuration says.

#include <absl/status/status.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "core/base/units.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"

namespace tenure {
namespace {

constexpr Bytes kLimit = MiB(160);

bool Write(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  return out.good();
}

// A cgroup of its own for one process, v1 or v2, below the root of the machine's hierarchy.
class MemoryLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef TENURE_SANITIZED
    GTEST_SKIP() << "a sanitizer takes many times the memory that the daemon leaves for itself";
#endif
    const std::string name = "/tenure-test-" + std::to_string(getpid());
    for (const char* root : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
      std::error_code error;
      if (!std::filesystem::create_directory(root + name, error)) continue;
      cgroup_ = root + name;
      for (const char* limit : {"/memory.limit_in_bytes", "/memory.max"}) {
        const std::string file = cgroup_ + limit;
        if (access(file.c_str(), W_OK) == 0 && Write(file, std::to_string(kLimit.count()))) return;
      }
      TearDown();
    }
    GTEST_SKIP() << "no cgroup with a memory limit can be made here";
  }
  void TearDown() override {
    daemon_.reset();
    // Its last process may be on its way out.
    if (!cgroup_.empty()) {
      EXPECT_TRUE(Eventually([this] { return rmdir(cgroup_.c_str()) == 0; }));
    }
    cgroup_.clear();
  }

  void Start(const std::string& segment_size) {
    daemon_ = std::make_unique<Tenured>(TenuredSettings{
        .capacity = "1024MiB",
        .segment_size = segment_size,
        .wrapper = {"/bin/sh", "-c", "echo $$ > " + cgroup_ + "/cgroup.procs && exec \"$@\"",
                    "sh"}});
  }
  static void ExpectNoneAvailable(const absl::Status& refused) {
    EXPECT_EQ(ErrorReason(refused), "BACKEND") << refused;
    EXPECT_NE(std::string(refused.message()).find("available"), std::string::npos) << refused;
  }

  std::string cgroup_;
  std::unique_ptr<Tenured> daemon_;
};

// Its Segments are created two at a time.
TEST_F(MemoryLimitTest, ALoadBeyondTheLimitIsRefusedWholeAndNobodyIsKilled) {
  Start("40MiB");
  const ModelFile small = WriteModel(*daemon_, "small", {.target = MiB(16)}, 1);
  const ModelFile large = WriteModel(*daemon_, "large", {.target = MiB(192)}, 2);
  const Client client = daemon_->Connect();
  const WeightLease lease = LoadAndLease(client, "small", small);
  const auto reserved = [&] {
    return Scrape::Of(daemon_->metrics_address()).Value("tenure_arena_reserved_bytes");
  };
  const uint64_t before = reserved();
  for (int i = 0; i < 3; ++i) {
    ExpectNoneAvailable(client.Load({.name = "large", .path = large.path}).status());
    EXPECT_EQ(reserved(), before);
    EXPECT_EQ(client.List()->size(), 1U);
  }
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(Difference(lease, small), "");
}

TEST_F(MemoryLimitTest, OnceAllIsTakenThereIsEnoughLeftToServe) {
  Start("2MiB");
  const ModelFile model = WriteModel(*daemon_, "model", {.target = MiB(2)}, 1);
  const Client client = daemon_->Connect();
  absl::Status refused;
  for (int i = 0; refused.ok(); ++i) {
    refused = client.Load({.name = "m" + std::to_string(i), .path = model.path}).status();
  }
  ExpectNoneAvailable(refused);
  std::vector<Client> crowd;
  std::vector<WeightLease> leases;
  for (int i = 0; i < 300; ++i) {
    crowd.push_back(daemon_->Connect());
    auto lease = crowd.back().Acquire({.name = "m" + std::to_string(i % 4)});
    ASSERT_TRUE(lease.ok()) << lease.status();
    leases.push_back(*std::move(lease));
    EXPECT_EQ(Difference(leases.back(), model), "");
  }
}

}  // namespace
}  // namespace tenure
