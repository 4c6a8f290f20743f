#include "server/device_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenure {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Status kNoDriver = Error(Reason::kBackend, "no CUDA devices: there is no driver");

Machine HostOnly(Bytes available) { return {.host_available = available, .gpus = kNoDriver}; }

Machine WithGpus() {
  return {.host_available = GiB(4),
          .gpus = std::vector<FoundGpu>{{.uuid = "GPU-aaaa", .model = "large", .total = GiB(80)},
                                        {.uuid = "GPU-bbbb", .model = "large", .total = GiB(80)},
                                        {.uuid = "MIG-cccc", .model = "slice", .total = GiB(10)}}};
}

DeviceConfig Gpu(const std::string& name, const std::string& uuid = "") {
  DeviceConfig device;
  device.name = name;
  device.backend = Backend::kCuda;
  device.uuid = uuid;
  return device;
}

StatusOr<std::vector<DevicePlan>> Plan(const std::vector<DeviceConfig>& devices,
                                       const Machine& machine) {
  Config config;
  config.devices = devices;
  return PlanDevices(config, machine);
}

std::string Refusal(const std::vector<DeviceConfig>& devices, const Machine& machine) {
  return std::string(Plan(devices, machine).status().message());
}

const HostDeviceOptions& HostOf(const DevicePlan& plan) {
  return std::get<HostDeviceOptions>(plan.device);
}
const CudaDeviceOptions& GpuOf(const DevicePlan& plan) {
  return std::get<CudaDeviceOptions>(plan.device);
}

TEST(PlanDevicesTest, TakesTheShareOfWhatTheMachineHasDownToTheGranule) {
  const StatusOr<std::vector<DevicePlan>> plans = Plan({}, HostOnly(MiB(101)));
  ASSERT_TRUE(plans.ok()) << plans.status();
  ASSERT_EQ(plans->size(), 1u);
  EXPECT_EQ(HostOf((*plans)[0]).name, "host:0");
  EXPECT_EQ(HostOf((*plans)[0]).total, MiB(101));
  EXPECT_EQ((*plans)[0].store.weights_capacity, MiB(70));
  EXPECT_EQ((*plans)[0].store.segment_size, MiB(64));
}

TEST(PlanDevicesTest, RefusesSumsThatCannotBe) {
  std::vector<DeviceConfig> devices(1);
  devices[0].weights = GiB(2);
  EXPECT_THAT(Refusal(devices, HostOnly(GiB(1))), HasSubstr("more than the total of host:0"));
  EXPECT_TRUE(Plan(devices, HostOnly(GiB(2))).ok());
  devices[0].total = GiB(1);
  EXPECT_FALSE(Plan(devices, HostOnly(GiB(4))).ok());
  devices[0].weights = MiB(1);
  EXPECT_THAT(Refusal(devices, HostOnly(GiB(4))), HasSubstr("less than 2 MiB"));
  devices = std::vector<DeviceConfig>(2);
  devices[1].name = "host:1";
  EXPECT_THAT(Refusal(devices, HostOnly(GiB(4))), HasSubstr("each needs a total"));
}

TEST(PlanDevicesTest, WithoutConfigurationEveryGpuServesAndTheHostDoesNot) {
  const StatusOr<std::vector<DevicePlan>> plans = Plan({}, WithGpus());
  ASSERT_TRUE(plans.ok()) << plans.status();
  ASSERT_EQ(plans->size(), 3u);
  EXPECT_EQ(GpuOf((*plans)[0]).name, "gpu:0");
  EXPECT_EQ(GpuOf((*plans)[2]).name, "gpu:2");
  EXPECT_EQ(GpuOf((*plans)[2]).uuid, "MIG-cccc");
}

TEST(PlanDevicesTest, AMigInstanceIsSharedOutByItsOwnSize) {
  const StatusOr<std::vector<DevicePlan>> plans = Plan({Gpu("gpu:0", "MIG-")}, WithGpus());
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_EQ((*plans)[0].store.weights_capacity, GiB(7));
}

TEST(PlanDevicesTest, GpusAreMatchedByUuidAndTheOthersGetWhatIsLeft) {
  const StatusOr<std::vector<DevicePlan>> plans =
      Plan({Gpu("gpu:0"), Gpu("gpu:1", "GPU-a"), DeviceConfig()}, WithGpus());
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_EQ(GpuOf((*plans)[0]).uuid, "GPU-bbbb");
  EXPECT_EQ(GpuOf((*plans)[1]).uuid, "GPU-aaaa");
  EXPECT_EQ(HostOf((*plans)[2]).name, "host:0");
}

TEST(PlanDevicesTest, AGpuThatIsNotThereOrTakenTwiceIsRefusedByName) {
  EXPECT_THAT(Refusal({Gpu("gpu:0", "GPU-dddd")}, WithGpus()), HasSubstr("GPU-aaaa"));
  EXPECT_THAT(Refusal({Gpu("gpu:0", "GPU-a"), Gpu("gpu:1", "GPU-aaaa")}, WithGpus()),
              HasSubstr("taken twice: GPU-aaaa"));
  EXPECT_THAT(Refusal({Gpu("gpu:0"), Gpu("gpu:1"), Gpu("gpu:2"), Gpu("gpu:3")}, WithGpus()),
              HasSubstr("no GPU left for gpu:3"));
}

TEST(PlanDevicesTest, AGpuThatIsDemandedInVainIsRefusedWithTheCauseAndTheWayToLearnMore) {
  const Status refused = Plan({Gpu("gpu:0")}, HostOnly(GiB(4))).status();
  EXPECT_TRUE(HasReason(refused, Reason::kBackend)) << refused;
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr(std::string(kNoDriver.message())),
                                                    HasSubstr("tenured --check-device")));
  EXPECT_THAT(Refusal({Gpu("gpu:0", "GPU-dddd")}, WithGpus()), HasSubstr("tenured --check-device"));
}

TEST(PlanDevicesTest, AnArenaLargerThanTheGpuIsRefused) {
  DeviceConfig slice = Gpu("gpu:0", "MIG-");
  slice.weights = GiB(11);
  EXPECT_THAT(Refusal({slice}, WithGpus()), HasSubstr("11 GiB of 10 GiB"));
  slice.total = GiB(12);
  EXPECT_THAT(Refusal({slice}, WithGpus()), HasSubstr("more than MIG-cccc has"));
}

}  // namespace
}  // namespace tenure
