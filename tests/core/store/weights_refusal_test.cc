#include <array>
#include <future>
#include <map>
#include <random>

#include "tests/core/store/store_fixture.h"

// Why loads are refused for want of room, each reason in turn, and that what is said before a load
// is what comes of it. Weights do not fragment. field case 2

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class WeightsRefusalTest : public StoreTest {
 protected:
  ~WeightsRefusalTest() override {
    for (SmallDevice* device : hardware_) {
      device->HoldDestructions(false);
      device->HoldCreations(false);
    }
  }

  static DeviceStoreOptions SmallOptions() {
    DeviceStoreOptions options = DefaultOptions();
    options.weights_capacity = KiB(64);
    return options;
  }

  StatusOr<LoadResult> LoadOf(const std::string& name, Bytes size, bool leased = false) {
    WriteModel(name, {size}, 1);
    return leased ? LoadLeased(name, name) : Load(name, name);
  }
  // Which waits for what is on its way, until the clock says that it is late.
  std::future<StatusOr<LoadResult>> LoadWithin(const std::string& name, Bytes size, Duration time) {
    WriteModel(name, {size}, 1);
    CallLimits limits;
    limits.deadline = clock_.Now() + time;
    auto loading = std::async(std::launch::async, [this, name, limits] {
      return store_->Load(RequestFor(name, name), limits);
    });
    while (store_->devices()[0]->TakeSnapshot().running_loads == 0) std::this_thread::yield();
    return loading;
  }
  DeviceFit FitOf(const std::string& file) {
    const StatusOr<std::vector<DeviceFit>> fits = store_->FitModel("models/" + file, "");
    EXPECT_TRUE(fits.ok()) << fits.status();
    return fits.ok() ? fits->front() : DeviceFit{};
  }

  static std::map<std::string, std::string> ValuesOf(const Status& refused) {
    std::map<std::string, std::string> values;
    for (const auto& [name, value] : DetailOf(refused).value_or(ErrorDetail{}).values) {
      values[name] = value;
    }
    return values;
  }
  // What Promise 4 asks of every refusal.
  void ExpectExplained(const Status& refused, Reason reason, Bytes needed, bool held) {
    ASSERT_TRUE(HasReason(refused, reason)) << refused;
    std::map<std::string, std::string> values = ValuesOf(refused);
    EXPECT_EQ(values["needed_bytes"], std::to_string(needed.count()));
    EXPECT_EQ(values["capacity_bytes"], std::to_string(KiB(64).count()));
    EXPECT_TRUE(values.contains("free_bytes") && values.contains("largest_free_bytes") &&
                values.contains("largest_loadable_bytes"));
    EXPECT_EQ(values["holders"].find("tester/0") != std::string::npos, held) << values["holders"];
    EXPECT_FALSE(values["hint"].empty());
    const std::string message(refused.message());
    EXPECT_NE(message.find(values["hint"]), std::string::npos) << message;
    for (const char* word : {"TTL", "ttl", "retention"}) {
      EXPECT_EQ(message.find(word), std::string::npos) << message;
    }
    const auto& failed = store_->devices()[0]->TakeSnapshot().counters.failed_loads;
    EXPECT_EQ(failed.at(std::string(ReasonName(reason))), 1U);
  }
};

TEST_F(WeightsRefusalTest, MoreThanTheArenaIsRefusedForCapacity) {
  Start(SmallOptions());
  ASSERT_TRUE(LoadOf("mine", KiB(8), /*leased=*/true).ok());
  const Status refused = LoadOf("big", KiB(65)).status();
  ExpectExplained(refused, Reason::kCapacity, KiB(68), /*held=*/true);
  EXPECT_EQ(ValuesOf(refused)["hint"], "it can only fit if weights get more of host:0");
  EXPECT_EQ(FitOf("big").verdict, FitVerdict::kNever);
}

TEST_F(WeightsRefusalTest, WhatLeasesHoldIsRefusedWithTheirNames) {
  for (const Duration retain_ttl : {Duration::zero(), Duration(seconds(60)), kForever}) {
    DeviceStoreOptions options = SmallOptions();
    options.retain_ttl = retain_ttl;
    Start(options);
    ASSERT_TRUE(LoadOf("mine", KiB(40), /*leased=*/true).ok());
    const Status refused = LoadOf("big", KiB(32)).status();
    ExpectExplained(refused, Reason::kHeldByLeases, KiB(32), /*held=*/true);
    EXPECT_EQ(ValuesOf(refused)["hint"],
              "it fits once the holders are done and their models are unloaded");
    const DeviceFit fit = FitOf("big");
    EXPECT_EQ(fit.verdict, FitVerdict::kWhenReleased);
    EXPECT_EQ(fit.explanation, refused.message());
  }
}

TEST_F(WeightsRefusalTest, WhatHelpsDependsOnWhetherIdleModelsMakeWay) {
  const auto refused_with = [this](Duration idle_unload_after) {
    DeviceStoreOptions options = SmallOptions();
    options.idle_unload_after = idle_unload_after;
    Start(options);
    EXPECT_TRUE(LoadOf("mine", KiB(40), /*leased=*/true).ok());
    LoadRequest idle = RequestFor("idle", "idle");
    WriteModel("idle", {KiB(12)}, 1);
    idle.pin = true;
    EXPECT_TRUE(store_->Load(idle, {}).ok());
    return ValuesOf(LoadOf("big", KiB(32)).status())["hint"];
  };
  const std::string never = refused_with(kForever);
  EXPECT_NE(never.find("unloading would help: idle@1 (12 KiB)"), std::string::npos) << never;
  EXPECT_EQ(never.find("by itself"), std::string::npos) << never;
  const std::string later = refused_with(milliseconds(1500));
  EXPECT_NE(later.find("what is not pinned makes way by itself once it has been idle for 1500 ms"),
            std::string::npos)
      << later;
  const std::string at_once = refused_with(Duration::zero());
  EXPECT_EQ(at_once.find("their models are unloaded"), std::string::npos) << at_once;
}

TEST_F(WeightsRefusalTest, WhatTheBackendHasNotFreedByTheDeadlineIsPending) {
  DeviceStoreOptions options = SmallOptions();
  options.retain_ttl = Duration::zero();
  options.cache_ttl = Duration::zero();
  Start(options);
  ASSERT_TRUE(LoadOf("old", KiB(40)).ok());
  hardware_[0]->HoldDestructions(true);
  ASSERT_TRUE(Unload("old").ok());
  Pass(milliseconds(1));
  ASSERT_TRUE(hardware_[0]->AwaitHeldDestruction());
  WriteModel("new", {KiB(50)}, 1);
  EXPECT_EQ(FitOf("new").verdict, FitVerdict::kAfterReclaim);
  EXPECT_EQ(FitOf("new").largest_now, KiB(24));
  EXPECT_EQ(FitOf("new").largest, KiB(64));
  auto loading = LoadWithin("new", KiB(50), seconds(1));
  EXPECT_EQ(loading.wait_for(milliseconds(30)), std::future_status::timeout);
  clock_.Advance(seconds(1));
  const Status refused = loading.get().status();
  store_->devices()[0]->Validate();
  hardware_[0]->HoldDestructions(false);
  store_->devices()[0]->WaitUntilQuiet();
  ExpectExplained(refused, Reason::kReclaimPending, KiB(52), /*held=*/false);
  EXPECT_TRUE(LoadOf("new", KiB(50)).ok());
}

TEST_F(WeightsRefusalTest, WhatASessionHasNotGivenBackByTheDeadlineIsPending) {
  Start(SmallOptions());
  ASSERT_TRUE(LoadOf("old", KiB(40)).ok());
  const GrantedLease lease = *store_->Acquire(session_, "old", "", {}, "");
  ASSERT_TRUE(Fetch(session_, lease.id).ok());
  ASSERT_TRUE(store_->Release(session_, lease.id).ok());
  ASSERT_TRUE(Unload("old").ok());
  auto loading = LoadWithin("new", KiB(50), milliseconds(100));
  ASSERT_EQ(events_.AwaitRecalls().size(), 1U);
  clock_.Advance(milliseconds(100));
  const Status refused = loading.get().status();
  store_->devices()[0]->WaitUntilQuiet();
  ExpectExplained(refused, Reason::kReclaimPending, KiB(52), /*held=*/false);
}

// A load that has its room and is slow is not refused for want of any.
TEST_F(WeightsRefusalTest, ALoadThatIsLateWithItsRoomIsJustLate) {
  Start(SmallOptions());
  hardware_[0]->HoldCreations(true);
  auto loading = LoadWithin("new", KiB(50), seconds(1));
  ASSERT_TRUE(hardware_[0]->AwaitHeldCreation());
  clock_.Advance(seconds(1));
  EXPECT_TRUE(HasReason(loading.get().status(), Reason::kDeadline));
  hardware_[0]->HoldCreations(false);
  store_->devices()[0]->WaitUntilQuiet();
}

TEST_F(WeightsRefusalTest, WhatTheBackendDoesNotHaveIsRefusedWithItsWordsAndTheNumbers) {
  Start(SmallOptions());
  ASSERT_TRUE(LoadOf("mine", KiB(8), /*leased=*/true).ok());
  hardware_[0]->FailCreation(2);
  const Status refused = LoadOf("new", KiB(40)).status();
  ExpectExplained(refused, Reason::kBackend, KiB(40), /*held=*/true);
  EXPECT_NE(refused.message().find("the backend was told to fail"), std::string::npos) << refused;
}

TEST_F(WeightsRefusalTest, AModelFitsInPlaceOfOneOfItsArchitecture) {
  Start(SmallOptions());
  ASSERT_TRUE(LoadOf("mine", KiB(20), /*leased=*/true).ok());
  ASSERT_TRUE(LoadOf("old", KiB(40)).ok());
  ASSERT_TRUE(Unload("old").ok());
  WriteModel("same", {KiB(40)}, 2);
  WriteModel("other", {KiB(40)}, 2);
  const DeviceFit fit = FitOf("same");
  EXPECT_EQ(fit.verdict, FitVerdict::kNow);
  EXPECT_EQ(fit.explanation, "it takes over the memory of old@1");
  EXPECT_EQ(LedgerNow().retained, KiB(40));
  EXPECT_EQ(Load("same", "same")->reuse, Reuse::kAdopted);
}

TEST_F(WeightsRefusalTest, EveryDeviceAnswersOrTheOneNamed) {
  Start(SmallOptions(), 2);
  WriteModel("a", {KiB(50)}, 1);
  ASSERT_TRUE(Load("a", "a").ok());  // on host:0
  WriteModel("b", {KiB(40)}, 1);
  const StatusOr<std::vector<DeviceFit>> fits = store_->FitModel("models/b", "");
  ASSERT_EQ(fits->size(), 2U);
  EXPECT_EQ(fits->at(0).verdict, FitVerdict::kWhenReleased);
  EXPECT_EQ(fits->at(1).verdict, FitVerdict::kNow);
  EXPECT_EQ(store_->FitModel("models/b", "host:1")->size(), 1U);
  EXPECT_TRUE(HasReason(store_->FitModel("models/b", "gpu:7").status(), Reason::kDeviceNotFound));
  EXPECT_TRUE(HasReason(store_->FitModel("models/none", "").status(), Reason::kFileNotFound));
  hardware_[1]->Lose();
  store_->Tick();
  EXPECT_EQ(store_->FitModel("models/b", "host:1")->front().verdict, FitVerdict::kDeviceLost);
}

class WeightsFitTest : public WeightsRefusalTest, public ::testing::WithParamInterface<uint32_t> {};

TEST_P(WeightsFitTest, WhatIsSaidOfALoadIsWhatComesOfIt) {
  std::mt19937 random(GetParam());
  const auto pick = [&](size_t below) {
    return std::uniform_int_distribution<size_t>(0, below - 1)(random);
  };
  DeviceStoreOptions options = SmallOptions();
  options.idle_unload_after = seconds(40);
  options.cache_ttl = seconds(30);
  Start(options);
  const std::array<Bytes, 8> sizes = {KiB(2),  KiB(9),  KiB(16), KiB(17),
                                      KiB(30), KiB(47), KiB(64), KiB(66)};
  std::map<FitVerdict, int> seen;
  std::vector<std::string> names;
  std::vector<LeaseId> leases;
  for (int step = 0; step < 300; ++step) {
    if (!names.empty() && pick(100) < 30) {
      (void)Unload(names[pick(names.size())]);
      continue;
    }
    if (!leases.empty() && pick(100) < 30) {
      (void)store_->Release(session_, leases[pick(leases.size())]);
      continue;
    }
    if (pick(6) == 0) Pass(seconds(pick(50)));
    store_->devices()[0]->WaitUntilQuiet();
    const std::string name = "n" + std::to_string(step);
    WriteModel(name, {sizes[pick(sizes.size())]}, 1 + pick(3));
    const Ledger before = LedgerNow();
    const DeviceFit fit = FitOf(name);
    ASSERT_EQ(LedgerNow(), before);
    EXPECT_TRUE(fit.largest_now.zero() ||
                store_->FitWeights(fit.largest_now, "")->front().verdict == FitVerdict::kNow);
    EXPECT_NE(store_->FitWeights(fit.largest_now + Bytes(1), "")->front().verdict,
              FitVerdict::kNow);
    const FitVerdict at_largest = store_->FitWeights(fit.largest, "")->front().verdict;
    EXPECT_TRUE(at_largest == FitVerdict::kNow || at_largest == FitVerdict::kAfterReclaim);
    const FitVerdict beyond = store_->FitWeights(fit.largest + Bytes(1), "")->front().verdict;
    EXPECT_TRUE(beyond == FitVerdict::kWhenReleased || beyond == FitVerdict::kNever);
    const StatusOr<LoadResult> loaded = pick(2) == 0 ? Load(name, name) : LoadLeased(name, name);
    ++seen[fit.verdict];
    switch (fit.verdict) {
      case FitVerdict::kNow:
      case FitVerdict::kAfterReclaim:
        ASSERT_TRUE(loaded.ok()) << "seed " << GetParam() << ", step " << step << ": "
                                 << fit.explanation << " / " << loaded.status();
        EXPECT_EQ(fit.needed, loaded->model.region_bytes);
        EXPECT_EQ(fit.verdict == FitVerdict::kNow, loaded->reclaimed.empty());
        break;
      case FitVerdict::kWhenReleased:
        ASSERT_TRUE(HasReason(loaded.status(), Reason::kHeldByLeases) ||
                    HasReason(loaded.status(), Reason::kCapacity))
            << "seed " << GetParam() << ", step " << step << ": " << loaded.status();
        break;
      case FitVerdict::kNever:
        ASSERT_TRUE(HasReason(loaded.status(), Reason::kCapacity)) << loaded.status();
        break;
      case FitVerdict::kDeviceLost:
      case FitVerdict::kCordoned:
        FAIL() << fit.explanation;
    }
    if (!loaded.ok()) continue;
    names.push_back(name);
    if (loaded->lease.has_value()) leases.push_back(loaded->lease->id);
    store_->devices()[0]->Validate();
  }
  EXPECT_EQ(seen.size(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, WeightsFitTest, ::testing::Range(1U, 9U));

}  // namespace
}  // namespace tenure
