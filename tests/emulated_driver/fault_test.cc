// Counters, faults on demand, and lost devices, as tests set them while processes run.

#include <filesystem>
#include <signal.h>
#include <string>

#include "tests/client/eventually.h"
#include "tests/emulated_driver/fixture.h"
#include "tests/emulated_driver/peer.h"

namespace tenure::emulated {
namespace {

constexpr char kCreate[] = "create 0 2097152 1";

class FaultTest : public testing::Test {
 protected:
  FaultTest() {
    for (Peer* peer : {&one_, &other_}) {
      EXPECT_EQ(peer->Do("init").result, CUDA_SUCCESS);
      EXPECT_EQ(peer->Do("ctx 0").result, CUDA_SUCCESS);
    }
  }

  static MachineConfig TwoGpus() {
    MachineConfig machine;
    machine.gpus.resize(2);
    return machine;
  }

  TempDir temp_;
  EmulatedGpu machine_{temp_ / "machine", TwoGpus()};
  Peer one_{machine_};
  Peer other_{machine_};
};

TEST_F(FaultTest, CountsTheCallsOfEachProcessAndOfAll) {
  one_.Do(kCreate);
  one_.Do(kCreate);
  other_.Do(kCreate);
  other_.Do("create 9 2097152 1");
  EXPECT_EQ(machine_.CallsOf("cuMemCreate"), 4U);
  EXPECT_EQ(machine_.CallsOf("cuMemCreate", one_.pid()), 2U);
  EXPECT_EQ(machine_.CallsOf("cuMemCreate", other_.pid()), 2U) << "failed calls count too";
  EXPECT_EQ(machine_.CallsOf("cuMemRelease"), 0U);
  const pid_t pid = one_.pid();
  one_.Kill();
  EXPECT_EQ(machine_.CallsOf("cuMemCreate", pid), 2U);
}

TEST_F(FaultTest, FailsTheCallThatIsAskedForCountedOverAllProcesses) {
  machine_.Fail("cuMemCreate", CUDA_ERROR_UNKNOWN, {.first = 3, .times = 2});
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_SUCCESS);
  EXPECT_EQ(other_.Do(kCreate).result, CUDA_SUCCESS);
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(other_.Do(kCreate).result, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_SUCCESS);
}

TEST_F(FaultTest, FailsTheCallThatIsAskedForCountedByEachProcess) {
  machine_.Fail("cuMemCreate", CUDA_ERROR_UNKNOWN, {.first = 2, .times = 1, .each_process = true});
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_SUCCESS);
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_SUCCESS);
  EXPECT_EQ(other_.Do(kCreate).result, CUDA_SUCCESS);
  EXPECT_EQ(other_.Do(kCreate).result, CUDA_ERROR_UNKNOWN);
}

TEST_F(FaultTest, FailsEveryCallUntilFaultsAreCleared) {
  machine_.Fail("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY, {.first = 2, .times = 0});
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_SUCCESS);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(one_.Do(kCreate).result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(one_.Do("info").result, CUDA_SUCCESS);
  machine_.ClearFaults();
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_SUCCESS);
}

TEST_F(FaultTest, CountsAnewForEachFaultThatIsSet) {
  const EmulatedGpu::Calls second{.first = 2, .times = 1, .each_process = true};
  machine_.Fail("cuMemCreate", CUDA_ERROR_UNKNOWN, second);
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_SUCCESS);
  machine_.ClearFaults();
  machine_.Fail("cuMemCreate", CUDA_ERROR_UNKNOWN, second);
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_SUCCESS);
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_ERROR_UNKNOWN);
}

TEST_F(FaultTest, HangsACallUntilTheFileIsRemoved) {
  const std::string file = machine_.Hang("cuMemCreate");
  const uint64_t calls = machine_.CallsOf("cuMemCreate");
  one_.Ask(kCreate);
  ASSERT_TRUE(Eventually([&] { return machine_.CallsOf("cuMemCreate") == calls + 1; }));
  EXPECT_EQ(other_.Do(kCreate).result, CUDA_SUCCESS) << "it holds nobody else up";
  EXPECT_FALSE(one_.Answered());
  std::filesystem::remove(file);
  EXPECT_EQ(one_.Answer().result, CUDA_SUCCESS);
}

TEST_F(FaultTest, DelaysACall) {
  machine_.Delay("cuMemCreate", std::chrono::milliseconds(50), {});
  const Instant before = SteadyClock().Now();
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_SUCCESS);
  EXPECT_GE(SteadyClock().Now() - before, std::chrono::milliseconds(50));
}

TEST_F(FaultTest, KillsAProcessInACall) {
  machine_.Kill("cuMemCreate", {});
  one_.Ask(kCreate);
  EXPECT_EQ(one_.WaitForEnd(), SIGKILL);
}

TEST_F(FaultTest, FailsInitialisationToo) {
  machine_.Fail("cuInit", CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  Peer late(machine_);
  EXPECT_EQ(late.Do("init").result, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
}

TEST_F(FaultTest, AnswersEveryCallOnALostDeviceWithItsLoss) {
  const uint64_t handle = one_.Do(kCreate).values.at(0);
  machine_.LoseDevice(0);
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(one_.Do("info").result, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(one_.Do("alloc 1").result, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(one_.Do("export " + std::to_string(handle)).result, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(one_.Do("release " + std::to_string(handle)).result, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(other_.Do("ctx 0").result, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(one_.Do("create 1 2097152 1").result, CUDA_SUCCESS) << "the other device is sound";
  machine_.LoseDevice(0, CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_ERROR_ECC_UNCORRECTABLE);
  machine_.RestoreDevice(0);
  EXPECT_EQ(one_.Do(kCreate).result, CUDA_SUCCESS);
}

TEST_F(FaultTest, RefusesAnEntryPointThatIsNone) {
  EXPECT_THROW(machine_.Fail("cuMemCreate_v2", 1), std::runtime_error);
  EXPECT_THROW(machine_.CallsOf("cuNothing"), std::runtime_error);
}

// What the configuration takes away.
CUresult CreateWith(const MachineConfig& config, const std::string& command) {
  TempDir temp;
  const EmulatedGpu machine(temp / "machine", config);
  Peer peer(machine);
  EXPECT_EQ(peer.Do("init").result, CUDA_SUCCESS);
  return static_cast<CUresult>(peer.Do(command).result);
}

TEST(ConfiguredTest, ADeviceWithoutVirtualMemoryRefusesItAll) {
  MachineConfig config;
  config.gpus[0].vmm = false;
  EXPECT_EQ(CreateWith(config, kCreate), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(CreateWith(config, "map 1 2097152 3 0"), CUDA_ERROR_NOT_SUPPORTED);
}

TEST(ConfiguredTest, ADeviceWithVirtualMemoryDoesNotLendItToAnother) {
  MachineConfig config;
  config.gpus.resize(2);
  config.gpus[0].vmm = false;
  EXPECT_EQ(CreateWith(config, kCreate), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(CreateWith(config, "create 1 2097152 1"), CUDA_SUCCESS);
}

TEST(ConfiguredTest, ADeviceWithoutPosixFdsRefusesExportableMemory) {
  MachineConfig config;
  config.gpus[0].posix_fd = false;
  EXPECT_EQ(CreateWith(config, kCreate), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(CreateWith(config, "create 0 2097152 0"), CUDA_SUCCESS);
}

TEST(ConfiguredTest, ReadsBackWhatItWrites) {
  MachineConfig config;
  config.driver_version = 12040;
  config.copy_delay = std::chrono::milliseconds(3);
  config.gpus.resize(2);
  config.gpus[1].name = "Other = GPU";
  config.gpus[1].integrated = true;
  config.gpus[1].memory = MiB(10);
  const auto read = ParseConfig(FormatConfig(config));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->driver_version, 12040);
  EXPECT_EQ(read->copy_delay, std::chrono::milliseconds(3));
  ASSERT_EQ(read->gpus.size(), 2U);
  EXPECT_EQ(read->gpus[1].name, "Other = GPU");
  EXPECT_TRUE(read->gpus[1].integrated);
  EXPECT_EQ(read->gpus[1].memory, MiB(10));
  EXPECT_NE(read->gpus[0].uuid, read->gpus[1].uuid);
}

TEST(ConfiguredTest, TakesCommentsAndRefusesWhatItDoesNotKnow) {
  EXPECT_TRUE(ParseConfig("# a comment\n\ndevice0.vmm=0\n").has_value());
  for (const char* text : {"device0.vmm=yes\n", "device1.vmm=0\n", "vmm\n", "devices=17\n",
                           "devices=1\ndevices=1\n", "device0.uuid=GPU-1\n", "devices=-1\n"}) {
    EXPECT_FALSE(ParseConfig(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace tenure::emulated
