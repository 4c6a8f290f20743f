// What a daemon makes of the GPUs that it finds, or does not find, and of one that it loses.

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/client/program.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Duration kDrain = std::chrono::seconds(1);
// What a machine with other work may add.
constexpr Duration kSlack = std::chrono::seconds(5);
constexpr int kOutOfMemory = 2;
constexpr int kStubLibrary = 34;
constexpr int kEccUncorrectable = 214;

class GpuTest : public ::testing::Test {
 protected:
  // A machine of two GPUs with as much memory, the second as the test wants it, for this process
  // and those that it starts. A process has one machine: run one test in each.
  EmulatedGpu& MakeMachine(const emulated::GpuConfig& second = {}, Bytes memory = GiB(1)) {
    emulated::MachineConfig config;
    config.gpus = {emulated::GpuConfig(), second};
    for (emulated::GpuConfig& gpu : config.gpus) gpu.memory = memory;
    machine_ = std::make_unique<EmulatedGpu>(memory_.MakeDir("gpus"), config);
    for (const std::string& variable : machine_->Environment()) {
      const size_t end = variable.find('=');
      setenv(variable.substr(0, end).c_str(), variable.substr(end + 1).c_str(), 1);
    }
    machine_->UseInThisProcess();
    return *machine_;
  }

  std::vector<std::string> Command(const std::string& yaml) {
    const std::string config = temp_.WriteFile(
        "tenured.yaml", "model_roots: [{name: models, path: " + temp_.MakeDir("models") +
                            "}]\nmetrics: {address: \"\"}\ndrain_timeout: 1s\n" + yaml);
    return {TENURED_PATH, "--config", config, "--directory", directory()};
  }
  std::string directory() const { return temp_ / "run"; }

  // What a daemon that does not start says.
  std::string Refusal(const std::string& yaml) {
    Program daemon(Command(yaml), temp_ / "refused");
    EXPECT_GT(daemon.Wait(), 0);
    return daemon.Err();
  }

  Client StartDaemon(const std::string& yaml) {
    daemon_ = std::make_unique<Program>(Command(yaml), temp_ / "tenured");
    EXPECT_TRUE(Eventually([this] {
      return client::CheckHealth(directory(), std::chrono::seconds(1)).value_or(false);
    })) << daemon_->Err();
    return *Client::Connect({.directory = directory(), .program = "test"});
  }

  std::string WriteModel(const std::string& name) {
    const TensorSpec spec{.name = "w", .dtype = DType::kU8, .shape = {MiB(8).count()}};
    WriteSafetensors(temp_.MakeDir("models") + "/" + name, {spec}, 1);
    return "models/" + name;
  }

  const TempDir temp_;
  const TempDir memory_{"/dev/shm"};  // the GPUs' memory is memory
  std::unique_ptr<EmulatedGpu> machine_;
  std::unique_ptr<Program> daemon_;
};

constexpr char kOneGpu[] = "devices: [{backend: cuda}]\n";

TEST_F(GpuTest, EveryGpuServesWhereNothingElseIsConfigured) {
  MakeMachine();
  const Client client = StartDaemon("");
  const auto status = client.Status();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->devices.size(), 2u);
  EXPECT_EQ(status->devices[0].name, "gpu:0");
  EXPECT_EQ(status->devices[1].name, "gpu:1");
  EXPECT_EQ(status->devices[0].arenas.at(0).capacity, MiB(716).count());
  EXPECT_NE(status->devices[0].uuid, status->devices[1].uuid);
}

TEST_F(GpuTest, WithoutADriverTheMachinesOwnMemoryServesAndTheLogSaysWhy) {
  unsetenv("LD_LIBRARY_PATH");
  const Client client = StartDaemon("");
  const auto status = client.Status();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->devices.size(), 1u);
  if (status->devices[0].backend == "cuda") GTEST_SKIP() << "this machine has NVIDIA's driver";
  EXPECT_EQ(status->devices[0].name, "host:0");
  EXPECT_THAT(daemon_->Err(), HasSubstr("no CUDA devices: NVIDIA's driver is not installed"));
}

TEST_F(GpuTest, ADaemonThatDemandsAGpuEndsWithTheCauseIfThereIsNone) {
  EmulatedGpu& machine = MakeMachine();
  machine.Fail("cuInit", kStubLibrary);
  EXPECT_THAT(Refusal(kOneGpu),
              AllOf(HasSubstr("is the toolkit's stub"), HasSubstr("tenured --check-device")));
  machine.ClearFaults();
  EXPECT_THAT(Refusal("devices: [{backend: cuda, uuid: GPU-0000}]\n"),
              HasSubstr("there is no GPU GPU-0000 for gpu:0"));
  EXPECT_THAT(Refusal("devices: [{backend: cuda, weights: 2GiB}]\n"),
              HasSubstr("more than the total of gpu:0: 2 GiB of 1 GiB"));
  EXPECT_THAT(Refusal("devices: [{backend: cuda}, {name: \"gpu:1\", backend: cuda},"
                      " {name: \"gpu:2\", backend: cuda}]\n"),
              HasSubstr("there is no GPU left for gpu:2"));
  machine.Fail("cuDevicePrimaryCtxRetain", kOutOfMemory);
  EXPECT_THAT(Refusal(kOneGpu), HasSubstr("has no memory left: cuDevicePrimaryCtxRetain"));
}

// Through a server another process's fault would be the daemon's too.
TEST_F(GpuTest, ADaemonJoinsNoMpsServer) {
  MakeMachine();
  temp_.WriteFile("control", "");
  setenv("CUDA_MPS_PIPE_DIRECTORY", temp_.path().c_str(), 1);
  Program check({TENURED_PATH, "--check-device"}, temp_ / "check");
  EXPECT_EQ(check.Wait(), 1);
  EXPECT_THAT(check.Out(), HasSubstr("bad\tdriver\tno CUDA devices: cuInit: CUDA_ERROR_MPS"));
  EXPECT_EQ(StartDaemon(kOneGpu).Status()->devices.at(0).name, "gpu:0");
}

TEST_F(GpuTest, AGpuThatLacksWhatTenureNeedsIsLeftOut) {
  emulated::GpuConfig lacking;
  lacking.vmm = false;
  MakeMachine(lacking);
  EXPECT_EQ(StartDaemon("").Status()->devices.size(), 1u);
}

TEST_F(GpuTest, TheCheckOfTheMachineTellsEachGpusShortcomings) {
  emulated::GpuConfig lacking;
  lacking.posix_fd = false;
  MakeMachine(lacking);
  Program check({TENURED_PATH, "--check-device"}, temp_ / "check");
  EXPECT_EQ(check.Wait(), 1);
  EXPECT_THAT(check.Out(), HasSubstr("good\tdriver\tCUDA 13.0\n"));
  EXPECT_THAT(check.Out(), HasSubstr("posix fds\tsupported, granule 2 MiB\n"));
  EXPECT_THAT(check.Out(), HasSubstr("posix fds\tnot supported\n"));
  EXPECT_THAT(check.Out(), HasSubstr("\tmps\t"));
  EXPECT_THAT(check.Out(), HasSubstr("\tmemlock\t"));
  machine_->Fail("cuInit", kStubLibrary);
  Program stubbed({TENURED_PATH, "--check-device"}, temp_ / "stubbed");
  EXPECT_EQ(stubbed.Wait(), 1);
  EXPECT_THAT(stubbed.Out(), HasSubstr("bad\tdriver\t"));
}

TEST_F(GpuTest, LeasesOnALostGpuEndWithTheReasonAndTheOtherServesOn) {
  EmulatedGpu& machine = MakeMachine();
  const Client client = StartDaemon("");
  const std::string path = WriteModel("a");
  const auto lost = client.Load({.name = "a", .path = path, .device = "gpu:0", .acquire = true});
  const auto kept = client.Load({.name = "b", .path = path, .device = "gpu:1", .acquire = true});
  ASSERT_TRUE(lost.ok() && kept.ok()) << lost.status() << kept.status();
  machine.Fail("cuMemGetInfo", kEccUncorrectable);
  ASSERT_TRUE(Eventually([&] { return !lost->lease->valid() || !kept->lease->valid(); }));

  // Whichever of the two asked first.
  const bool first = !lost->lease->valid();
  const WeightLease& gone = first ? *lost->lease : *kept->lease;
  const WeightLease& there = first ? *kept->lease : *lost->lease;
  EXPECT_EQ(gone.lost_reason(), "DEVICE_LOST");
  EXPECT_TRUE(there.valid());
  const auto status = client.Status();
  ASSERT_TRUE(status.ok()) << status.status();
  const client::Device& device = status->devices[first ? 0 : 1];
  EXPECT_THAT(device.lost, HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE"));
  EXPECT_EQ(device.arenas.at(0).capacity, 0u);
  EXPECT_EQ(device.arenas.at(0).lost, MiB(716).count());
  EXPECT_EQ(status->devices[first ? 1 : 0].lost, "");
  EXPECT_TRUE(client::CheckHealth(directory(), std::chrono::seconds(1)).value_or(false));
  EXPECT_THAT(daemon_->Err(), HasSubstr("device lost"));

  const auto again = client.Load({.name = gone.name(), .path = path, .acquire = true});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->lease->device(), there.device());
}

TEST_F(GpuTest, ADriverThatHangsLosesItsGpuAndDelaysNeitherOthersNorTheEnd) {
  EmulatedGpu& machine = MakeMachine();
  const Client client = StartDaemon("driver_timeout: 1s\n");
  const std::string path = WriteModel("a");
  const std::string hanging = machine.Hang("cuMemCreate");
  const auto refused = client.Load({.name = "a", .path = path, .device = "gpu:0"});
  EXPECT_EQ(ErrorReason(refused.status()), "DEVICE_LOST") << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("cuMemCreate has not returned"));
  const auto elsewhere = client.Load({.name = "a", .path = path, .acquire = true});
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
  EXPECT_EQ(elsewhere->lease->device(), "gpu:1");
  kill(daemon_->pid(), SIGTERM);
  EXPECT_EQ(daemon_->Wait(), 0) << daemon_->Err();
}

// While it loads, while it looks, and with the last call of all.
TEST_F(GpuTest, ADriverThatHangsUnnoticedDelaysTheEndByItsTimeoutAtMost) {
  EmulatedGpu& machine = MakeMachine();
  const std::string path = WriteModel("a");
  for (const char* entry : {"cuMemCreate", "cuMemGetInfo", "cuDevicePrimaryCtxRelease"}) {
    const Client client = StartDaemon("driver_timeout: 2s\n");
    const uint64_t before = machine.CallsOf(entry);
    const std::string hanging = machine.Hang(entry);
    if (entry == std::string_view("cuMemCreate")) {
      const auto loaded =
          client.Load({.name = "a", .path = path}, {.timeout = std::chrono::milliseconds(200)});
      EXPECT_FALSE(loaded.ok());
    }
    if (entry != std::string_view("cuDevicePrimaryCtxRelease")) {
      ASSERT_TRUE(Eventually([&] { return machine.CallsOf(entry) > before; }));
    }
    const SteadyClock clock;
    const Instant told = clock.Now();
    kill(daemon_->pid(), SIGTERM);
    EXPECT_EQ(daemon_->Wait(), 0) << entry << ": " << daemon_->Err();
    EXPECT_LT(clock.Now() - told, kDrain + std::chrono::seconds(2) + kSlack) << entry;
    machine.ClearFaults();
  }
}

class ProductionConfigTest : public GpuTest {
 protected:
  std::vector<std::string> ProductionCommand() const {
    return {TENURED_PATH,  "--config",     std::string(TENURE_CONFIGS) + "/production.yaml",
            "--directory", directory(),    "--metrics-address",
            "127.0.0.1:0", "--model-root", "models=" + temp_.MakeDir("models")};
  }
};

TEST_F(ProductionConfigTest, ServesFromItsGpu) {
  MakeMachine({}, GiB(16));
  daemon_ = std::make_unique<Program>(ProductionCommand(), temp_ / "tenured");
  ASSERT_TRUE(Eventually([this] {
    return client::CheckHealth(directory(), std::chrono::seconds(1)).value_or(false);
  })) << daemon_->Err();
  const auto client = Client::Connect({.directory = directory(), .program = "test"});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto status = client->Status();
  ASSERT_EQ(status->devices.size(), 1u);
  EXPECT_EQ(status->devices[0].name, "gpu:0");
  EXPECT_EQ(status->devices[0].arenas[0].capacity, GiB(9).count());
  EXPECT_EQ(status->devices[0].arenas[1].capacity, GiB(3).count());
}

TEST_F(ProductionConfigTest, DoesNotServeWithoutAGpu) {
  Program daemon(ProductionCommand(), temp_ / "refused");
  EXPECT_EQ(daemon.Wait(), 1);
  EXPECT_THAT(daemon.Err(), HasSubstr("tenured --check-device"));
}

}  // namespace
}  // namespace tenure
