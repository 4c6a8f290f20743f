// Initialisation, versions, names of errors, and looking up entry points.

#include <dlfcn.h>
#include <filesystem>
#include <string>

#include "tests/emulated_driver/fixture.h"
#include "tests/emulated_driver/peer.h"

namespace tenure::emulated {
namespace {

TEST(InitTest, RefusesEveryCallBeforeInitialisation) {
  TempDir temp;
  const EmulatedGpu machine(temp / "machine");
  Peer peer(machine);
  EXPECT_EQ(peer.Do("count").result, CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(peer.Do("create 0 2097152 1").result, CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(peer.Do("info").result, CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(peer.Do("init").result, CUDA_SUCCESS);
  EXPECT_EQ(peer.Do("count").result, CUDA_SUCCESS);
}

TEST(InitTest, RefusesEveryCallOfAChildThatWasForkedAfterInitialisation) {
  TempDir temp;
  const EmulatedGpu machine(temp / "machine");
  Peer peer(machine);
  ASSERT_EQ(peer.Do("init").result, CUDA_SUCCESS);
  ASSERT_EQ(peer.Do("ctx 0").result, CUDA_SUCCESS);
  const Peer::Reply forked = peer.Do("fork");
  EXPECT_EQ(forked.values, std::vector<uint64_t>(5, CUDA_ERROR_NOT_INITIALIZED));
  EXPECT_EQ(machine.CallsOf("cuInit", peer.pid()), 1U) << "a child's calls are not its parent's";
  EXPECT_EQ(peer.Do("info").result, CUDA_SUCCESS);
}

TEST(InitTest, LetsAChildInitialiseThatWasForkedBefore) {
  TempDir temp;
  const EmulatedGpu machine(temp / "machine");
  Peer peer(machine);
  ASSERT_EQ(peer.Do("count").result, CUDA_ERROR_NOT_INITIALIZED);
  const Peer::Reply forked = peer.Do("fork");
  EXPECT_EQ(forked.values.at(0), CUDA_SUCCESS);
  EXPECT_EQ(forked.values.at(1), CUDA_SUCCESS);
}

TEST(InitTest, FindsNoDeviceWithoutAMachine) {
  TempDir temp;
  const EmulatedGpu machine(temp / "machine");
  Peer peer(machine, {"TENURE_EMULATED_GPU=" + (temp / "nowhere")});
  EXPECT_EQ(peer.Do("init").result, CUDA_ERROR_NO_DEVICE);
}

TEST(InitTest, IsNotReadyWithAConfigurationThatIsNotUnderstood) {
  TempDir temp;
  const EmulatedGpu machine(temp / "machine");
  temp.WriteFile("machine/config", "device0.memori=1\n");
  Peer peer(machine);
  EXPECT_EQ(peer.Do("init").result, CUDA_ERROR_SYSTEM_NOT_READY);
}

TEST(InitTest, JoinsAnMpsServerThatItIsLedToAndGetsNoAnswer) {
  TempDir temp;
  const EmulatedGpu machine(temp / "machine");
  Peer without(machine, {"CUDA_MPS_PIPE_DIRECTORY=" + temp.path()});
  EXPECT_EQ(without.Do("init").result, CUDA_SUCCESS);
  temp.WriteFile("control", "");
  Peer with(machine, {"CUDA_MPS_PIPE_DIRECTORY=" + temp.path()});
  EXPECT_EQ(with.Do("init").result, CUDA_ERROR_MPS_CONNECTION_FAILED);
}

TEST(InitTest, OffersOneGpuOf4GiBToAFolderWithoutAConfiguration) {
  TempDir temp;
  const EmulatedGpu machine(temp / "machine");
  std::filesystem::remove(temp / "machine/config");
  Peer peer(machine);
  ASSERT_EQ(peer.Do("init").result, CUDA_SUCCESS);
  EXPECT_EQ(peer.Do("count").values.at(0), 1U);
  ASSERT_EQ(peer.Do("ctx 0").result, CUDA_SUCCESS);
  EXPECT_EQ(peer.Do("info").values.at(1), GiB(4).count());
}

using EntryTest = DriverTest;

TEST_F(EntryTest, TakesNoFlags) {
  EXPECT_EQ(cuInit(1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
}

TEST_F(EntryTest, TellsTheDriversVersion) {
  int version = 0;
  EXPECT_EQ(cuDriverGetVersion(&version), CUDA_SUCCESS);
  EXPECT_EQ(version, 13000);
  EXPECT_EQ(cuDriverGetVersion(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(EntryTest, NamesErrors) {
  const char* name = nullptr;
  EXPECT_EQ(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name), CUDA_SUCCESS);
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &name), CUDA_SUCCESS);
  EXPECT_STREQ(name, "out of memory");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(998), &name), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(name, nullptr);
}

TEST_F(EntryTest, ExportsTheNamesThatTheHeaderMapsTo) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  ASSERT_NE(library, nullptr);
  EXPECT_NE(dlsym(library, "cuMemcpyHtoDAsync_v2"), nullptr);
  EXPECT_NE(dlsym(library, "cuMemCreate"), nullptr);
  EXPECT_EQ(dlsym(library, "cuMemAlloc"), nullptr) << "of 32 bits in the real driver";
  dlclose(library);
}

struct Lookup {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
};

Lookup LookUp(const char* name, int version) {
  Lookup lookup;
  EXPECT_EQ(cuGetProcAddress(name, &lookup.function, version, 0, &lookup.status), CUDA_SUCCESS);
  return lookup;
}

TEST_F(EntryTest, FindsEveryEntryPointByItsNameWithoutVersion) {
  for (const std::string_view name : kEntryPointNames) {
    EXPECT_NE(LookUp(std::string(name).c_str(), 13000).function, nullptr) << name;
  }
  EXPECT_EQ(LookUp("cuMemAlloc", 13000).function, reinterpret_cast<void*>(&cuMemAlloc));
}

TEST_F(EntryTest, FindsNoEntryPointThatIsNewerThanTheVersionAskedFor) {
  EXPECT_EQ(LookUp("cuMemCreate", 10010).function, nullptr);
  EXPECT_EQ(LookUp("cuMemCreate", 10010).status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(LookUp("cuMemAlloc_v2", 13000).status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(LookUp("cuEventElapsedTime", 12000).status, CU_GET_PROC_ADDRESS_SUCCESS);
  void* function = nullptr;
  EXPECT_EQ(cuGetProcAddress("cuInit", &function, 99000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGetProcAddress("cuInit", nullptr, 13000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tenure::emulated
