// A client whose daemon serves a GPU.

#include <gtest/gtest.h>
#include <optional>
#include <stdlib.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "tenure/client.h"
#include "tests/client/cuda_machine.h"
#include "tests/client/eventually.h"
#include "tests/client/model_files.h"
#include "tests/client/program.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using client::kSecondGpu;
using client::Machine;
using client::UuidOf;

// The daemon finds the driver as any process does.
DaemonSettings OnAGpu() {
  for (const std::string& variable : Machine().Environment()) {
    const size_t end = variable.find('=');
    setenv(variable.substr(0, end).c_str(), variable.substr(end + 1).c_str(), 1);
  }
  return {.device = "{name: \"gpu:0\", backend: cuda, uuid: \"" + UuidOf(kSecondGpu) +
                    "\", weights: 64MiB}"};
}

class CudaClientTest : public ::testing::Test {
 protected:
  Client Connect() {
    return *Client::Connect({.directory = daemon_.directory(), .program = "test"});
  }

  EmulatedGpu& machine_ = Machine();
  DaemonProcess daemon_{OnAGpu()};
};

TEST_F(CudaClientTest, ALeaseShowsTheFileAndSaysWhere) {
  const ModelFile file = WriteModel(daemon_, "a", 24);
  const Client client = Connect();
  const WeightLease lease = LoadAndLease(client, "a", file);
  EXPECT_EQ(lease.memory_kind(), MemoryKind::kCuda);
  EXPECT_EQ(lease.device_uuid(), UuidOf(kSecondGpu));
  EXPECT_EQ(lease.cuda_ordinal(), 1);
  EXPECT_EQ(reinterpret_cast<uint64_t>(lease.base()) % (uint64_t{2} << 20), 0u);
  EXPECT_EQ(Difference(lease, file), "");
}

TEST_F(CudaClientTest, AHandOverKeepsTheAddressesAndTheMapping) {
  const ModelFile a = WriteModel(daemon_, "a", 24, 1);
  const ModelFile b = WriteModel(daemon_, "b", 24, 2);
  const Client client = Connect();
  WeightLease lease = LoadAndLease(client, "a", a);
  const std::byte* const base = lease.base();
  const uint64_t imports = machine_.CallsOf("cuMemImportFromShareableHandle");
  ASSERT_TRUE(lease.Release().ok());
  ASSERT_TRUE(client.Unload("a").ok());
  const auto adopted = client.Load({.name = "b", .path = b.path, .acquire = true});
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(adopted->reuse, client::Reuse::kAdopted);
  EXPECT_EQ(adopted->lease->base(), base);
  EXPECT_EQ(machine_.CallsOf("cuMemImportFromShareableHandle"), imports);
  EXPECT_EQ(Difference(*adopted->lease, b), "");
}

TEST_F(CudaClientTest, AnIdleMappingIsGivenBackWhenTheRoomIsNeeded) {
  const ModelFile a = WriteModel(daemon_, "a", 40, 1);
  const ModelFile b = WriteModel(daemon_, "b", 44, 2);
  const Client client = Connect();
  ASSERT_TRUE(LoadAndLease(client, "a", a).Release().ok());
  EXPECT_EQ(client.mapped_region_count(), 1u);
  ASSERT_TRUE(client.Unload("a").ok());
  const auto loaded = client.Load({.name = "b", .path = b.path, .acquire = true});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(client.mapped_region_count(), 1u);
  EXPECT_EQ(Difference(*loaded->lease, b), "");
  EXPECT_EQ(client.Status()->devices.at(0).arenas.at(0).quarantined, 0u);
}

TEST_F(CudaClientTest, ALeaseThatCannotBeMappedIsGivenBack) {
  const ModelFile file = WriteModel(daemon_, "a", 24);
  const Client client = Connect();
  ASSERT_TRUE(client.Load({.name = "a", .path = file.path}).ok());
  // Whether it is the first thing that fails or one of the last.
  for (const char* entry : {"cuMemAddressReserve", "cuMemImportFromShareableHandle"}) {
    machine_.Fail(entry, 2);
    EXPECT_EQ(ErrorReason(client.Acquire({.name = "a"}).status()), "CUDA_FAILED") << entry;
    EXPECT_TRUE(Eventually([&] { return client.Get("a")->holders.empty(); })) << entry;
    machine_.ClearFaults();
  }
  const auto lease = client.Acquire({.name = "a"});
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(Difference(*lease, file), "");
}

TEST_F(CudaClientTest, AForkedChildDoesNotCallTheDriver) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Client client = Connect();
  std::optional<WeightLease> lease = LoadAndLease(client, "a", file);
  const auto calls = [this] {
    return std::vector<uint64_t>{
        machine_.CallsOf("cuCtxPushCurrent"), machine_.CallsOf("cuThreadExchangeStreamCaptureMode"),
        machine_.CallsOf("cuMemcpyDtoHAsync"), machine_.CallsOf("cuDevicePrimaryCtxRelease")};
  };
  const std::vector<uint64_t> before = calls();
  const pid_t child = fork();
  if (child == 0) {
    std::byte byte{};
    const bool refused = ErrorReason(lease->CopyToHost(0, {&byte, 1})) == "FORKED";
    lease.reset();
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(calls(), before);
  EXPECT_EQ(Difference(*lease, file), "");
}

TEST_F(CudaClientTest, TheVerifyingProgramReadsAGpuToo) {
  const ModelFile file = WriteModel(daemon_, "a", 24);
  const ModelFile other = WriteModel(daemon_, "b", 24, 2);
  ASSERT_TRUE(Connect().Load({.name = "a", .path = file.path}).ok());
  const TempDir temp;
  const auto verify = [&](const std::string& path) {
    return Program({TENURE_VERIFY_PATH, "--directory", daemon_.directory(), "a", path}, temp / "v")
        .Wait();
  };
  EXPECT_EQ(verify(file.path), 0);
  EXPECT_EQ(verify(other.path), 1);
}

}  // namespace
}  // namespace tenure
