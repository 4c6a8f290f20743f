// Memory that several processes share, and what keeps it alive when they die.

#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/emulated_driver/fixture.h"
#include "tests/emulated_driver/peer.h"

namespace tenure::emulated {
namespace {

constexpr char kPieceText[] = "2097152";

MachineConfig SmallGpus() {
  MachineConfig machine;
  machine.context_cost = Bytes(0);
  machine.gpus.resize(2);
  for (GpuConfig& gpu : machine.gpus) gpu.memory = MiB(16);
  return machine;
}

std::string Words(const std::string& command, std::initializer_list<uint64_t> values) {
  std::string words = command;
  for (const uint64_t value : values) words += " " + std::to_string(value);
  return words;
}

// Two processes with a context each on one machine.
class SharingTest : public testing::Test {
 protected:
  SharingTest() {
    for (Peer* peer : {&one_, &other_}) {
      EXPECT_EQ(peer->Do("init").result, CUDA_SUCCESS);
      EXPECT_EQ(peer->Do("ctx 0").result, CUDA_SUCCESS);
    }
  }

  // An allocation of one_, exported; one_ keeps its handle.
  UniqueFd Export() {
    handle_ = one_.Do(Words("create", {0, kPiece, 1})).values.at(0);
    Peer::Reply exported = one_.Do(Words("export", {handle_}));
    EXPECT_EQ(exported.result, CUDA_SUCCESS);
    return std::move(exported.fd);
  }

  TempDir temp_;
  EmulatedGpu machine_{temp_ / "machine", SmallGpus()};
  Peer one_{machine_};
  Peer other_{machine_};
  uint64_t handle_ = 0;
};

TEST_F(SharingTest, ShowsTheSameBytesToBoth) {
  const UniqueFd fd = Export();
  const uint64_t mine = one_.Do(Words("map", {handle_, kPiece, 3, 0})).values.at(0);
  const uint64_t imported = other_.Do("import", fd.get()).values.at(0);
  const uint64_t theirs = other_.Do(Words("map", {imported, kPiece, 1, 0})).values.at(0);
  ASSERT_EQ(one_.Do(Words("set", {mine, kPiece, 42})).result, CUDA_SUCCESS);
  EXPECT_EQ(other_.Do(Words("get", {theirs + kPiece - 1})).values.at(0), 42U);
}

TEST_F(SharingTest, GivesAFreshHandleForEachImport) {
  const UniqueFd fd = Export();
  const uint64_t first = other_.Do("import", fd.get()).values.at(0);
  const uint64_t second = other_.Do("import", fd.get()).values.at(0);
  EXPECT_NE(first, second);
  EXPECT_EQ(other_.Do(Words("release", {first})).result, CUDA_SUCCESS);
  EXPECT_EQ(other_.Do(Words("map", {second, kPiece, 3, 0})).result, CUDA_SUCCESS);
}

TEST_F(SharingTest, KeepsTheMemoryForAnImporterAfterTheExporterDied) {
  UniqueFd fd = Export();
  const uint64_t mine = one_.Do(Words("map", {handle_, kPiece, 3, 0})).values.at(0);
  ASSERT_EQ(one_.Do(Words("set", {mine, kPiece, 7})).result, CUDA_SUCCESS);
  const uint64_t imported = other_.Do("import", fd.get()).values.at(0);
  const uint64_t theirs = other_.Do(Words("map", {imported, kPiece, 1, 0})).values.at(0);
  ASSERT_EQ(other_.Do(Words("release", {imported})).result, CUDA_SUCCESS);
  fd.Reset();
  one_.Kill();
  EXPECT_EQ(machine_.LiveBytes(0), Bytes(kPiece));
  EXPECT_EQ(other_.Do(Words("get", {theirs})).values.at(0), 7U);
  EXPECT_EQ(other_.Do(Words("unmap", {theirs, kPiece})).result, CUDA_SUCCESS);
  EXPECT_EQ(machine_.LiveBytes(0), Bytes(0));
}

TEST_F(SharingTest, KeepsTheMemoryForAnFdAloneAfterTheExporterDied) {
  UniqueFd fd = Export();
  one_.Kill();
  EXPECT_EQ(machine_.LiveBytes(0), Bytes(kPiece));
  ASSERT_EQ(other_.Do("keep", fd.get()).result, CUDA_SUCCESS);
  fd.Reset();
  EXPECT_EQ(machine_.LiveBytes(0), Bytes(kPiece)) << "the fd lives in another process now";
  other_.Kill();
  EXPECT_EQ(machine_.LiveBytes(0), Bytes(0));
}

TEST_F(SharingTest, LetsAnFdBeImportedAfterTheExporterDied) {
  const UniqueFd fd = Export();
  one_.Kill();
  EXPECT_EQ(other_.Do("import", fd.get()).result, CUDA_SUCCESS);
}

TEST_F(SharingTest, ExportsOnlyWhatWasCreatedForIt) {
  const uint64_t handle = one_.Do(Words("create", {0, kPiece, 0})).values.at(0);
  EXPECT_EQ(one_.Do(Words("export", {handle})).result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(one_.Do("export 12345").result, CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SharingTest, ImportsNothingButItsOwnMemory) {
  EXPECT_EQ(one_.Do("import").result, CUDA_ERROR_INVALID_VALUE) << "no fd";
  const UniqueFd memfd(memfd_create("no-gpu-memory", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memfd.get(), kPiece), 0);
  EXPECT_EQ(one_.Do("import", memfd.get()).result, CUDA_ERROR_INVALID_VALUE);
  EmulatedGpu elsewhere(temp_ / "elsewhere", SmallGpus());
  Peer stranger(elsewhere);
  ASSERT_EQ(stranger.Do("init").result, CUDA_SUCCESS);
  const UniqueFd fd = Export();
  EXPECT_EQ(stranger.Do("import", fd.get()).result, CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SharingTest, ExportsAnFdThatIsNoMemoryOfTheCpus) {
  const UniqueFd fd = Export();
  EXPECT_EQ(mmap(nullptr, kPiece, PROT_READ, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  char byte = 0;
  EXPECT_EQ(read(fd.get(), &byte, 1), -1);
}

TEST_F(SharingTest, NumbersTheDeviceOfAnImportAsTheImporterDoes) {
  Peer turned(machine_, {"CUDA_VISIBLE_DEVICES=1,0"});
  ASSERT_EQ(turned.Do("init").result, CUDA_SUCCESS);
  const UniqueFd fd = Export();
  const uint64_t imported = turned.Do("import", fd.get()).values.at(0);
  EXPECT_EQ(turned.Do(Words("handle_device", {imported})).values.at(0), 1U);
}

TEST_F(SharingTest, ImportsNothingOfADeviceThatTheProcessCannotSee) {
  Peer blind(machine_, {"CUDA_VISIBLE_DEVICES=1"});
  ASSERT_EQ(blind.Do("init").result, CUDA_SUCCESS);
  const UniqueFd fd = Export();
  EXPECT_EQ(blind.Do("import", fd.get()).result, CUDA_ERROR_INVALID_DEVICE);
}

using CapacityTest = SharingTest;

TEST_F(CapacityTest, IsSharedByAllProcesses) {
  EXPECT_EQ(one_.Do(Words("create", {0, 5 * kPiece, 1})).result, CUDA_SUCCESS);
  EXPECT_EQ(other_.Do(Words("create", {0, 4 * kPiece, 1})).result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(other_.Do(Words("alloc", {3 * kPiece})).result, CUDA_SUCCESS);
  EXPECT_EQ(one_.Do("alloc 1").result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(other_.Do("info").values, (std::vector<uint64_t>{0, 8 * kPiece}));
  EXPECT_EQ(one_.Do(Words("create", {1, 8 * kPiece, 1})).result, CUDA_SUCCESS)
      << "the other device has room";
}

TEST_F(CapacityTest, ComesBackFromAProcessThatWasKilled) {
  ASSERT_EQ(one_.Do(Words("create", {0, 5 * kPiece, 1})).result, CUDA_SUCCESS);
  ASSERT_EQ(one_.Do(Words("alloc", {3 * kPiece})).result, CUDA_SUCCESS);
  ASSERT_EQ(other_.Do(std::string("create 0 ") + kPieceText + " 1").result,
            CUDA_ERROR_OUT_OF_MEMORY);
  one_.Kill();
  EXPECT_EQ(other_.Do(Words("create", {0, 8 * kPiece, 1})).result, CUDA_SUCCESS);
}

TEST_F(CapacityTest, CountsMemoryThatItsMakerReleasedWhileAnotherHoldsIt) {
  const uint64_t handle = one_.Do(Words("create", {0, 5 * kPiece, 1})).values.at(0);
  const Peer::Reply exported = one_.Do(Words("export", {handle}));
  ASSERT_EQ(other_.Do("import", exported.fd.get()).result, CUDA_SUCCESS);
  ASSERT_EQ(one_.Do(Words("release", {handle})).result, CUDA_SUCCESS);
  EXPECT_EQ(one_.Do(Words("create", {0, 4 * kPiece, 1})).result, CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(CapacityTest, CountsWhatEachProcessesContextCosts) {
  MachineConfig config = SmallGpus();
  config.context_cost = MiB(5);
  EmulatedGpu machine(temp_ / "costly", config);
  Peer first(machine);
  ASSERT_EQ(first.Do("init").result, CUDA_SUCCESS);
  ASSERT_EQ(first.Do("ctx 0").result, CUDA_SUCCESS);
  EXPECT_EQ(first.Do("info").values.at(0), MiB(11).count());
  Peer second(machine);
  ASSERT_EQ(second.Do("init").result, CUDA_SUCCESS);
  ASSERT_EQ(second.Do("ctx 0").result, CUDA_SUCCESS);
  EXPECT_EQ(first.Do("info").values.at(0), MiB(6).count());
  Peer third(machine);
  ASSERT_EQ(third.Do("init").result, CUDA_SUCCESS);
  ASSERT_EQ(third.Do("ctx 0").result, CUDA_SUCCESS);
  EXPECT_EQ(third.Do("ctx 0").result, CUDA_SUCCESS) << "it has one already";
  Peer fourth(machine);
  ASSERT_EQ(fourth.Do("init").result, CUDA_SUCCESS);
  EXPECT_EQ(fourth.Do("ctx 0").result, CUDA_ERROR_OUT_OF_MEMORY);
  second.Kill();
  EXPECT_EQ(fourth.Do("ctx 0").result, CUDA_SUCCESS);
}

// Kills processes at points that nobody chooses while they take and give back memory all the time.
TEST_F(CapacityTest, LosesNothingToProcessesThatAreKilledAtAnyPoint) {
  for (int round = 0; round < 20; ++round) {
    Peer churning(machine_);
    Peer too(machine_);
    for (Peer* peer : {&churning, &too}) {
      ASSERT_EQ(peer->Do("init").result, CUDA_SUCCESS);
      peer->Ask(Words("churn", {0, 5 * kPiece}));
    }
    const uint64_t before = machine_.CallsOf("cuMemRelease");
    while (machine_.CallsOf("cuMemRelease") < before + 10 + static_cast<uint64_t>(round)) {
      EXPECT_LE(machine_.LiveBytes(0), Bytes(8 * kPiece));
      ASSERT_FALSE(churning.Answered() || too.Answered()) << "a call failed";
    }
  }
  EXPECT_EQ(machine_.LiveBytes(0), Bytes(0));
  EXPECT_EQ(other_.Do(Words("create", {0, 8 * kPiece, 1})).result, CUDA_SUCCESS);
}

}  // namespace
}  // namespace tenure::emulated
