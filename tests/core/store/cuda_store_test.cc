#include <algorithm>
#include <cuda.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

#include "core/store/store.h"
#include "tests/core/device/cuda_machine.h"
#include "tests/core/store/store_fixture.h"

// The store over the CUDA backend, on an emulated GPU that counts and fails calls of the driver.

namespace tenure {
namespace {

using std::chrono::seconds;

class CudaStoreTest : public ::testing::Test {
 protected:
  CudaStoreTest() : machine_(EmulatedMachine()) {}

  void SetUp() override {
    if (machine_ == nullptr) GTEST_SKIP() << "needs an emulated GPU";
  }
  void TearDown() override {
    if (machine_ != nullptr) machine_->ClearFaults();
  }

  void Start(Bytes capacity, Bytes segment_size) {
    store_.reset();
    idle_ = machine_->LiveBytes(0);
    StatusOr<std::unique_ptr<Device>> device = MakeFirstGpu(clock_);
    ASSERT_TRUE(device.ok()) << device.status();
    DeviceStoreOptions options;
    options.weights_capacity = capacity;
    options.segment_size = segment_size;
    options.retain_ttl = seconds(60);
    options.default_lease_ttl = kForever;
    std::vector<DeviceOptions> devices;
    devices.push_back({.device = *std::move(device), .store = options});
    store_ = std::make_unique<Store>(
        StoreOptions{.model_roots = {ModelRoot{.name = "models", .path = directory_.path()}}},
        std::move(devices), clock_, *files_, events_);
    session_ =
        store_->OpenSession({.program = "tester", .instance = "0", .uid = 0, .gid = 0, .pid = 0});
    idle_ = machine_->LiveBytes(0);
  }

  static std::vector<TensorSpec> SpecsOf(const std::vector<Bytes>& sizes) {
    std::vector<TensorSpec> specs;
    for (const Bytes size : sizes) {
      specs.push_back(TensorSpec{.name = "t" + std::to_string(specs.size()),
                                 .dtype = DType::kU8,
                                 .shape = {size.count()}});
    }
    return specs;
  }
  void WriteModel(const std::string& file, const std::vector<Bytes>& sizes, uint64_t seed) {
    WriteSafetensors(directory_ / file, SpecsOf(sizes), seed);
  }
  // As large as you like: zeros that take no room on the disk.
  void WriteSparseModel(const std::string& file, Bytes size) {
    const std::string header = SafetensorsHeader(SpecsOf({size}));
    directory_.WriteFile(file, RawSafetensors(header, ""));
    std::filesystem::resize_file(directory_ / file, 8 + header.size() + size.count());
  }

  StatusOr<LoadResult> Load(const std::string& name, const std::string& file) {
    LoadRequest request;
    request.session = session_;
    request.name = name;
    request.path = "models/" + file;
    request.acquire = true;
    return store_->Load(request, {});
  }
  // Loads and releases.
  void Bring(const std::string& name, const std::string& file) {
    const StatusOr<LoadResult> loaded = Load(name, file);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ASSERT_TRUE(store_->Release(session_, loaded->lease->id).ok());
  }
  void Retain(const std::string& name, const std::string& file) {
    Bring(name, file);
    ASSERT_TRUE(store_->Unload(name, {}, "").ok());
  }
  void Cache(const std::string& name, const std::string& file) {
    Retain(name, file);
    clock_.Advance(seconds(61));
    store_->Tick();
  }

  StatusOr<ShareExport> Fetch(LeaseId lease) {
    return FetchShare(*store_, events_, session_, lease);
  }
  // What a client of the lease reads.
  std::vector<std::byte> ReadThroughLease(LeaseId lease) {
    const StatusOr<ShareExport> batch = Fetch(lease);
    EXPECT_TRUE(batch.ok()) << batch.status();
    std::vector<std::byte> region;
    for (size_t i = 0; batch.ok() && i < batch->fds.size(); ++i) {
      const std::vector<std::byte> part = ReadThroughImport(batch->fds[i].get(), batch->sizes[i]);
      region.insert(region.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(store_->Unmapped(session_, batch->share.serial));
    return region;
  }
  void ExpectContent(LeaseId lease, const std::vector<Bytes>& sizes, uint64_t seed) {
    const std::vector<TensorSpec> specs = SpecsOf(sizes);
    const Layout layout = *Layout::Of(specs);
    const std::vector<std::byte> region = ReadThroughLease(lease);
    for (size_t i = 0; i < layout.specs().size(); ++i) {
      const std::vector<std::byte> expected = ContentOf(layout.specs()[i], seed);
      const auto at = static_cast<ptrdiff_t>(layout.places()[i].begin().count());
      ASSERT_LE(layout.places()[i].end(), Bytes(region.size()));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), region.begin() + at))
          << "tensor " << i;
    }
  }

  const DeviceStore& device() const { return *store_->devices()[0]; }
  // Of the driver's memory, what Segments take.
  Bytes HeldBytes() { return machine_->LiveBytes(0) - idle_; }
  uint64_t Calls(const char* entry) const { return machine_->CallsOf(entry); }

  EmulatedGpu* const machine_;
  TempDir directory_;
  ManualClock clock_;
  const std::unique_ptr<FileLayer> files_ = MakePosixFileLayer();
  RecordedEvents events_;
  Bytes idle_;
  std::unique_ptr<Store> store_;
  SessionId session_;
};

TEST_F(CudaStoreTest, AFreshLoadMakesFewAllocationsAndOneOfThemAccessible) {
  Start(GiB(2), MiB(64));
  WriteSparseModel("large", GiB(1) + MiB(38) + Bytes(1));
  const uint64_t creations = Calls("cuMemCreate");
  const uint64_t accesses = Calls("cuMemSetAccess");
  const StatusOr<LoadResult> loaded = Load("large", "large");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->reuse, Reuse::kFresh);
  EXPECT_LE(Calls("cuMemCreate") - creations, 17U + 4U);
  EXPECT_EQ(Calls("cuMemSetAccess") - accesses, 1U);
}

TEST_F(CudaStoreTest, AnAdoptionAsksTheDriverForNoMemory) {
  Start(MiB(64), MiB(4));
  const std::vector<Bytes> sizes = {MiB(6), MiB(3), Bytes(5)};
  WriteModel("a", sizes, 1);
  WriteModel("b", sizes, 2);
  Retain("a", "a");
  const char* const kEntries[] = {"cuMemCreate",    "cuMemMap",     "cuMemUnmap",
                                  "cuMemSetAccess", "cuMemRelease", "cuMemExportToShareableHandle"};
  std::vector<uint64_t> before;
  for (const char* entry : kEntries) before.push_back(Calls(entry));
  const StatusOr<LoadResult> loaded = Load("b", "b");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->reuse, Reuse::kAdopted);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(Calls(kEntries[i]), before[i]) << kEntries[i];
  ExpectContent(loaded->lease->id, sizes, 2);
}

TEST_F(CudaStoreTest, WhenOthersFillTheGpuTheRefusalSaysHowMuchTheyUse) {
  Start(GiB(2), MiB(64));
  CUmemAllocationProp allocation{};
  allocation.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocation.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle other = 0;
  ASSERT_EQ(RawDriver().cuMemCreate(&other, (GiB(4) - MiB(160)).count(), &allocation, 0),
            CUDA_SUCCESS);
  while (device().TakeSnapshot().foreign < GiB(3)) std::this_thread::yield();
  WriteSparseModel("large", MiB(256));
  const Status refused = Load("large", "large").status();
  EXPECT_TRUE(HasReason(refused, Reason::kBackend)) << refused;
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("used by others: 3."));
  device().Validate();
  EXPECT_EQ(device().TakeSnapshot().ledger.reserved, Bytes(0));
  ASSERT_EQ(RawDriver().cuMemRelease(other), CUDA_SUCCESS);
  EXPECT_TRUE(Load("large", "large").ok());
}

TEST_F(CudaStoreTest, WhatTheDriverHoldsIsWhatTheLedgerSays) {
  Start(MiB(64), MiB(4));
  WriteModel("a", {MiB(9)}, 1);
  WriteModel("b", {MiB(5)}, 1);
  Bring("a", "a");
  EXPECT_EQ(HeldBytes(), MiB(10));
  Retain("b", "b");
  EXPECT_EQ(HeldBytes(), device().TakeSnapshot().ledger.reserved);
  store_.reset();
  EXPECT_LE(machine_->LiveBytes(0), idle_);
}

// Field case 6, on the code that calls the driver.
class CudaFaultTest : public CudaStoreTest {
 public:
  void PrepareNothing() {}
  void PrepareCache() { Cache("old", "old"); }
  void PrepareRetained() { Retain("old", "old"); }

 protected:
  struct Undertaking {
    const char* name;
    void (CudaFaultTest::*prepare)();
    const char* file;
  };
  // The seeds of the files; all of one size are of one architecture.
  static constexpr uint64_t kOldSeed = 2;
  static constexpr uint64_t kNewSeed = 3;
  static inline const std::vector<Bytes> kOld = {MiB(5), MiB(4), Bytes(7)};
  static inline const std::vector<Bytes> kWide = {MiB(9), MiB(4)};

  void Prepare(const Undertaking& undertaking) {
    Start(MiB(2 + 16), MiB(4));
    WriteModel("bystander", {MiB(2)}, 1);
    WriteModel("old", kOld, kOldSeed);
    WriteModel("twin", kOld, kNewSeed);
    WriteModel("wide", kWide, kNewSeed);
    bystander_ = Load("bystander", "bystander")->lease->id;
    (this->*undertaking.prepare)();
  }

  LeaseId bystander_;
};

TEST_F(CudaFaultTest, WhicheverCallOfALoadFailsTheLedgerIsRightAndARetrySucceeds) {
  const Undertaking kUndertakings[] = {
      {"fresh", &CudaFaultTest::PrepareNothing, "wide"},
      {"recycled", &CudaFaultTest::PrepareCache, "wide"},
      {"adopted", &CudaFaultTest::PrepareRetained, "twin"},
      {"reclaiming", &CudaFaultTest::PrepareRetained, "wide"},
  };
  const std::pair<const char*, int> kFaults[] = {{"cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY},
                                                 {"cuMemMap", CUDA_ERROR_INVALID_VALUE},
                                                 {"cuMemSetAccess", CUDA_ERROR_INVALID_VALUE},
                                                 {"cuMemsetD8Async", CUDA_ERROR_INVALID_VALUE},
                                                 {"cuMemcpyHtoDAsync", CUDA_ERROR_INVALID_VALUE},
                                                 {"cuEventRecord", CUDA_ERROR_INVALID_VALUE}};
  int failures = 0;
  for (const Undertaking& undertaking : kUndertakings) {
    for (const auto& [entry, result] : kFaults) {
      for (uint64_t step = 1;; ++step) {
        SCOPED_TRACE(testing::Message() << undertaking.name << ", " << entry << ", step " << step);
        ASSERT_LT(step, 100U);
        Prepare(undertaking);
        const uint64_t leases = device().TakeSnapshot().live_leases;
        EmulatedGpu::Calls call;
        call.first = step;
        machine_->Fail(entry, result, call);
        StatusOr<LoadResult> loaded = Load("new", undertaking.file);
        machine_->ClearFaults();
        const bool struck = !loaded.ok();
        if (struck) {
          ++failures;
          const Reason reason =
              result == CUDA_ERROR_OUT_OF_MEMORY ? Reason::kBackend : Reason::kDriver;
          EXPECT_TRUE(HasReason(loaded.status(), reason)) << loaded.status();
          device().Validate();
          EXPECT_EQ(device().TakeSnapshot().live_leases, leases);
          EXPECT_EQ(HeldBytes(), device().TakeSnapshot().ledger.reserved);
          EXPECT_TRUE(store_->Renew(session_, bystander_).lease.ok());
          loaded = Load("new", undertaking.file);
        }
        ASSERT_TRUE(loaded.ok()) << loaded.status();
        const bool twin = undertaking.file == std::string("twin");
        ExpectContent(loaded->lease->id, twin ? kOld : kWide, kNewSeed);
        ExpectContent(bystander_, {MiB(2)}, 1);
        EXPECT_EQ(HeldBytes(), device().TakeSnapshot().ledger.reserved);
        if (HasFailure()) return;
        if (!struck) break;
      }
    }
  }
  EXPECT_GT(failures, 20);
}

TEST_F(CudaFaultTest, AnExportThatFailsLeavesTheLeaseAndNoShare) {
  Prepare({"fresh", &CudaFaultTest::PrepareNothing, "wide"});
  const StatusOr<LoadResult> loaded = Load("new", "wide");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (uint64_t step = 1; step <= 4; ++step) {
    EmulatedGpu::Calls call;
    call.first = step;
    machine_->Fail("cuMemExportToShareableHandle", CUDA_ERROR_NOT_SUPPORTED, call);
    EXPECT_TRUE(HasReason(Fetch(loaded->lease->id).status(), Reason::kDriver));
    EXPECT_EQ(store_->UseBy(session_).shares, 0U);
    machine_->ClearFaults();
    ExpectContent(loaded->lease->id, kWide, kNewSeed);
  }
}

TEST_F(CudaFaultTest, ADeviceThatIsLostUnderALoadEndsItWithThatReason) {
  Prepare({"fresh", &CudaFaultTest::PrepareNothing, "wide"});
  EmulatedGpu::Calls call;
  call.first = 2;
  machine_->Fail("cuMemcpyHtoDAsync", CUDA_ERROR_ECC_UNCORRECTABLE, call);
  EXPECT_TRUE(HasReason(Load("new", "wide").status(), Reason::kDeviceLost));
  store_->Tick();
  device().Validate();
  EXPECT_EQ(device().TakeSnapshot().ledger.lost, MiB(2 + 16));
  const auto lost = events_.TakeLost();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].lease, bystander_);
  EXPECT_EQ(lost[0].reason, Reason::kDeviceLost);
}

// Field case 18. What is cached fits nothing and must go first.
TEST_F(CudaStoreTest, ADriverThatIsSlowToFreeDelaysNobodyElse) {
  Start(MiB(2 + 8), MiB(4));
  WriteModel("small", {MiB(2)}, 1);
  WriteModel("large", {MiB(8)}, 1);
  const LeaseId bystander = Load("bystander", "small")->lease->id;
  for (const char* name : {"a", "b", "c"}) Bring(name, "small");
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(store_->Unload(name, {}, "").ok());
  clock_.Advance(seconds(61));
  store_->Tick();
  const uint64_t unmaps = Calls("cuMemUnmap");
  const std::string hanging = machine_->Hang("cuMemUnmap");
  std::thread loading([&] { EXPECT_TRUE(Load("new", "large").ok()); });
  while (Calls("cuMemUnmap") == unmaps) std::this_thread::yield();

  store_->Tick();
  EXPECT_EQ(device().TakeSnapshot().running_loads, 1U);
  EXPECT_TRUE(store_->Renew(session_, bystander).lease.ok());
  const StatusOr<GrantedLease> lease = store_->Acquire(session_, "bystander", "", {}, "");
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(Fetch(lease->id).ok());
  machine_->ClearFaults();
  loading.join();
}

}  // namespace
}  // namespace tenure
