// Runtime memory of a client whose daemon serves a GPU.

#include <chrono>
#include <cuda.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string>

#include "tenure/client.h"
#include "tests/client/cuda_machine.h"
#include "tests/client/eventually.h"
#include "tests/support/daemon_process.h"

namespace tenure {
namespace {

using client::CallDriver;
using client::CudaScope;
using client::kSecondGpu;
using client::Machine;
using client::UuidOf;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSegment = 2 * kMiB;

// The daemon finds the driver as any process does.
DaemonSettings OnAGpu() {
  for (const std::string& variable : Machine().Environment()) {
    const size_t end = variable.find('=');
    setenv(variable.substr(0, end).c_str(), variable.substr(end + 1).c_str(), 1);
  }
  return {.device = "{name: \"gpu:0\", backend: cuda, uuid: \"" + UuidOf(kSecondGpu) +
                    "\", weights: 16MiB, runtime: 32MiB}",
          .more_yaml = "runtime: {segment_size: 2MiB}\n"};
}

class CudaBufferTest : public ::testing::Test {
 protected:
  ~CudaBufferTest() override { machine_.ClearFaults(); }

  Client Connect() const {
    return *Client::Connect({.directory = daemon_.directory(), .program = "test"});
  }
  uint64_t Leased() const { return observer_.Status()->devices.at(0).arenas.at(1).leased; }

  void Fill(const PoolBuffer& buffer, char value) const {
    const CudaScope scope(*device_);
    TENURE_CALL_DRIVER(cuMemsetD8, reinterpret_cast<CUdeviceptr>(buffer.data()),
                       static_cast<unsigned char>(value), buffer.size_bytes());
  }
  bool IsFull(const PoolBuffer& buffer, char value) const {
    const CudaScope scope(*device_);
    std::string bytes(buffer.size_bytes(), '\0');
    TENURE_CALL_DRIVER(cuMemcpyDtoH, static_cast<void*>(bytes.data()),
                       reinterpret_cast<CUdeviceptr>(buffer.data()), bytes.size());
    return bytes == std::string(bytes.size(), value);
  }

  EmulatedGpu& machine_ = Machine();
  DaemonProcess daemon_{OnAGpu()};
  const Client observer_ = Connect();
  const std::shared_ptr<client::CudaDevice> device_ = client::Device(kSecondGpu);
};

TEST_F(CudaBufferTest, BuffersAreWrittenByTheDeviceAndNobodysElse) {
  const Client first = Connect();
  const Client second = Connect();
  const auto pool = first.OpenPool();
  const auto others = second.OpenPool();
  ASSERT_TRUE(pool.ok() && others.ok()) << pool.status() << others.status();
  const auto a = pool->Acquire(5 * kMiB);
  const auto b = others->Acquire(5 * kMiB);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  Fill(*a, 'a');
  Fill(*b, 'b');
  EXPECT_TRUE(IsFull(*a, 'a'));
  EXPECT_TRUE(IsFull(*b, 'b'));
}

// Nothing stays granted that nobody knows of.
TEST_F(CudaBufferTest, AnAcquireGivenUpWhileTheDriverHangsHoldsNothingOnceItIsBack) {
  const Client client = Connect();
  const auto pool = client.OpenPool();
  ASSERT_TRUE(pool.ok()) << pool.status();
  const auto before = pool->Acquire(kMiB);
  ASSERT_TRUE(before.ok());
  const std::string hung = machine_.Hang("cuMemImportFromShareableHandle");
  const absl::Status late =
      pool->Acquire(10 * kMiB, {}, {.timeout = std::chrono::milliseconds(500)}).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  EXPECT_EQ(Leased(), 6 * kSegment);
  machine_.ClearFaults();
  EXPECT_TRUE(Eventually([&] { return Leased() == kSegment; }));
  EXPECT_TRUE(pool->Acquire(10 * kMiB).ok());
}

TEST_F(CudaBufferTest, AnAcquireThatCannotBeMappedHoldsNothing) {
  const Client client = Connect();
  const auto pool = client.OpenPool();
  ASSERT_TRUE(pool.ok()) << pool.status();
  machine_.Fail("cuMemImportFromShareableHandle", 2, {.first = 3});
  EXPECT_EQ(ErrorReason(pool->Acquire(10 * kMiB).status()), "CUDA_FAILED");
  EXPECT_TRUE(Eventually([&] { return Leased() == 0; }));
  EXPECT_TRUE(pool->Acquire(10 * kMiB).ok());
}

}  // namespace
}  // namespace tenure
