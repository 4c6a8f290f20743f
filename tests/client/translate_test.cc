#include "client/cpp/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "tenure/errors.h"

namespace tenure::client {
namespace {

TEST(TranslateTest, ALeaseSaysOnWhichKindOfMemoryItIs) {
  v1::WeightLease lease;
  lease.set_device("gpu:0");
  lease.set_backend("cuda");
  lease.set_device_uuid("GPU-1");
  const absl::StatusOr<LeasedDevice> device = ToDevice(lease);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->name, "gpu:0");
  EXPECT_EQ(device->memory_kind, MemoryKind::kCuda);
  EXPECT_EQ(device->uuid, "GPU-1");
  lease.set_backend("host");
  EXPECT_EQ(ToDevice(lease)->memory_kind, MemoryKind::kHost);
}

TEST(TranslateTest, ALeaseOnMemoryOfAnotherKindIsRefused) {
  v1::WeightLease lease;
  lease.set_device("npu:0");
  lease.set_backend("level-zero");
  const absl::Status status = ToDevice(lease).status();
  EXPECT_EQ(ErrorReason(status), "UNSUPPORTED_BACKEND");
  EXPECT_EQ(ErrorValues(status).at("backend"), "level-zero");
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("npu:0"));
}

}  // namespace
}  // namespace tenure::client
