#include <algorithm>
#include <dirent.h>
#include <future>

#include "tests/core/store/model_content.h"
#include "tests/core/store/store_fixture.h"
#include "tests/support/faulty_device.h"
#include "tests/support/faulty_files.h"

// Lets every single step of an undertaking go wrong, one after another, and looks each time at what
// is left of it: nothing, but what the error names. Field cases 6 and 32, as far as loads and
// hand-overs go.

namespace tenure {
namespace {

using std::chrono::seconds;

int OpenFds() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/fd"), &::closedir);
  int count = 0;
  while (::readdir(directory.get()) != nullptr) ++count;
  return count;
}

class FaultTest;

struct Undertaking {
  const char* name;
  void (FaultTest::*prepare)();
  Status (FaultTest::*attempt)();
  FileFault fault;
  friend void PrintTo(const Undertaking& undertaking, std::ostream* out) {
    *out << undertaking.name;
  }
};

class FaultTest : public StoreTest, public ::testing::WithParamInterface<Undertaking> {
 public:
  // What there is before the attempt, beside a lease on "bystander". There is room for 64 KiB.
  void PrepareNothing() {}
  void PrepareCache() {
    Retain();
    Pass(seconds(61));
  }
  void PrepareRetained() { Retain(); }
  void PrepareActive() { ASSERT_TRUE(Load("new", "bystander").ok()); }
  void PrepareLease() { ASSERT_TRUE(LoadNew("wide").ok()); }

  Status LoadTwin() { return LoadNew("twin"); }
  Status LoadWide() { return LoadNew("wide"); }
  Status LoadSharded() { return LoadNew("sharded"); }
  Status Export() {
    const StatusOr<ShareExport> batch = Fetch(session_, lease_);
    return batch.status();
  }

 protected:
  struct Row {
    std::string name;
    RegionState state;
    RegionId region;
    Generation generation;
    bool has_content;
    friend bool operator==(const Row&, const Row&) = default;
  };
  struct State {
    Ledger ledger;
    std::vector<Row> models;
    uint64_t leases;
    uint32_t shares;
    uint64_t segments;  // held from the backend
    int other_fds;      // that belong to no Segment
  };

  FaultTest() {
    WriteModel("bystander", {KiB(8)}, 1);
    WriteModel("old", {KiB(20), KiB(20)}, 2);
    WriteModel("twin", {KiB(20), KiB(20)}, 3);
    WriteModel("wide", {KiB(30), KiB(26)}, 4);
    WriteShardedSafetensors(directory_ / "sharded", SpecsOf({KiB(30), KiB(26)}), 2, 4);
  }

  std::unique_ptr<Device> Show(std::unique_ptr<SmallDevice> device) override {
    return std::make_unique<FaultyDevice>(std::move(device), steps_);
  }
  FileLayer& ShownFiles() override { return faulty_files_; }

  // Starts a store in which a lease on "bystander" lives, and prepares what is to be attempted.
  void Prepare() {
    faulty_files_.set_fault(GetParam().fault);
    limits_ = {};
    DeviceStoreOptions options = DefaultOptions();
    options.weights_capacity = KiB(8 + 64);
    options.default_lease_ttl = kForever;
    Start(options);
    bystander_ = LoadLeased("bystander", "bystander")->lease->id;
    (this->*GetParam().prepare)();
    steps_.Fail(0);
  }
  Status Attempt() { return (this->*GetParam().attempt)(); }

  void Retain() {
    ASSERT_TRUE(Load("old", "old").ok());
    ASSERT_TRUE(Unload("old").ok());
  }

  Status LoadNew(const std::string& file) {
    LoadRequest request = RequestFor("new", file);
    request.acquire = true;
    const StatusOr<LoadResult> loaded = store_->Load(request, limits_);
    if (!loaded.ok()) return loaded.status();
    lease_ = loaded->lease->id;
    content_ = file == "twin" ? ModelContent(SpecsOf({KiB(20), KiB(20)}), 3)
                              : ModelContent(SpecsOf({KiB(30), KiB(26)}), 4);
    return absl::OkStatus();
  }

  State Look() const {
    const DeviceStore& device = *store_->devices()[0];
    device.Validate();
    const BackendCounters backend = Backend();
    State state{.ledger = device.TakeSnapshot().ledger,
                .models = {},
                .leases = device.TakeSnapshot().live_leases,
                .shares = store_->UseBy(session_).shares,
                .segments = backend.segments_created - backend.segments_destroyed,
                .other_fds = 0};
    state.other_fds = OpenFds() - static_cast<int>(state.segments);
    for (const ModelView& model : store_->Models()) {
      state.models.push_back({.name = model.name,
                              .state = model.state,
                              .region = model.region,
                              .generation = model.generation,
                              .has_content = model.content.has_value()});
    }
    return state;
  }

  // `before`, but for what `error` says is gone.
  static State Expected(State before, const Status& error) {
    const std::string message(error.message());
    const auto old = std::find_if(before.models.begin(), before.models.end(),
                                  [](const Row& row) { return row.name == "old"; });
    if (message.find("content was overwritten: old@1") != std::string::npos) {
      old->name = "new";
      old->state = RegionState::kEmpty;
      old->generation = Generation(old->generation.value() + 1);
      old->has_content = false;
    } else if (message.find("content was reclaimed: old@1") != std::string::npos) {
      before.models.erase(old);
      before.ledger.cached += std::exchange(before.ledger.retained, Bytes(0));
    }
    return before;
  }

  void ExpectAsBefore(const State& before, const Status& error) {
    const State now = Look();
    const State expected = Expected(before, error);
    EXPECT_EQ(now.models, expected.models);
    EXPECT_EQ(now.leases, expected.leases);
    EXPECT_EQ(now.shares, expected.shares);
    EXPECT_EQ(now.other_fds, expected.other_fds);
    EXPECT_EQ(now.ledger.allocated(), expected.ledger.allocated());
    EXPECT_EQ(now.ledger.retained, expected.ledger.retained);
    EXPECT_EQ(now.ledger.free(), expected.ledger.free());
    // Reclaimed memory may have made way for other Segments.
    EXPECT_LE(now.segments, before.segments);
    if (expected.models.size() == before.models.size()) {
      EXPECT_EQ(now.segments, before.segments);
      EXPECT_EQ(now.ledger.reserved, before.ledger.reserved);
    }
    EXPECT_TRUE(store_->Renew(session_, bystander_).lease.ok());
  }

  void ExpectTheAttemptSucceedsNow() {
    steps_.Fail(0);
    const Status retried = Attempt();
    ASSERT_TRUE(retried.ok()) << retried;
    const StatusOr<ShareExport> batch = Fetch(session_, lease_);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_TRUE(content_.IsIn(MappedShare(*batch)));
  }

  FaultySteps steps_;
  FaultyFiles faulty_files_{files_, steps_};
  CallLimits limits_;
  LeaseId bystander_;
  LeaseId lease_;
  ModelContent content_{{}, 0};
};

TEST_P(FaultTest, WhicheverStepFailsNothingIsLeftButWhatTheErrorNames) {
  Prepare();
  ASSERT_TRUE(Attempt().ok());
  const int steps = steps_.taken();
  ASSERT_GT(steps, 0);
  for (int k = 1; k <= steps && !HasFailure(); ++k) {
    SCOPED_TRACE("step " + std::to_string(k) + " of " + std::to_string(steps));
    Prepare();
    const State before = Look();
    steps_.Fail(k);
    const Status failed = Attempt();
    EXPECT_FALSE(failed.ok());
    EXPECT_TRUE(DetailOf(failed).has_value()) << failed;
    ExpectAsBefore(before, failed);
    ExpectTheAttemptSucceedsNow();
  }
}

class HangTest : public FaultTest {};

// Promise 8. A step on the caller's own thread delays its own call and no other.
TEST_P(HangTest, WhicheverStepHangsTheCallEndsByItsDeadlineAndOthersGoOn) {
  Prepare();
  ASSERT_TRUE(Attempt().ok());
  const int steps = steps_.taken();
  for (int k = 1; k <= steps && !HasFailure(); ++k) {
    SCOPED_TRACE("step " + std::to_string(k) + " of " + std::to_string(steps));
    Prepare();
    const State before = Look();
    steps_.Hold(k);
    limits_.deadline = clock_.Now() + seconds(1);
    auto attempt = std::async(std::launch::async, [this] { return Attempt(); });
    EXPECT_TRUE(steps_.gate().AwaitArrival());
    store_->Tick();
    const StatusOr<GrantedLease> lease = store_->Acquire(session_, "bystander", "", {}, "");
    EXPECT_TRUE(lease.ok()) << lease.status();
    EXPECT_TRUE(store_->Release(session_, lease->id).ok());
    store_->devices()[0]->Validate();
    const bool loading = store_->ProgressOf("new", "").has_value();
    if (loading) clock_.Advance(seconds(1));
    const Status ended = loading ? attempt.get() : absl::OkStatus();
    steps_.gate().Hold(false);
    if (loading) {
      EXPECT_TRUE(HasReason(ended, Reason::kDeadline)) << ended;
      store_->devices()[0]->WaitUntilQuiet();
      const State now = Look();
      EXPECT_EQ(now.leases, before.leases);
      EXPECT_EQ(now.other_fds, before.other_fds);
      EXPECT_EQ(now.ledger.allocated(), before.ledger.allocated());
      limits_ = {};
      ExpectTheAttemptSucceedsNow();
    } else {
      EXPECT_TRUE(attempt.get().ok());
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Undertaking>& undertaking) {
  return undertaking.param.name;
}

constexpr Undertaking kUndertakings[] = {
    {"FreshLoad", &FaultTest::PrepareNothing, &FaultTest::LoadWide, FileFault::kError},
    {"FreshLoadOfAShortFile", &FaultTest::PrepareNothing, &FaultTest::LoadWide, FileFault::kShort},
    {"FreshLoadOfAChangedFile", &FaultTest::PrepareNothing, &FaultTest::LoadWide,
     FileFault::kChanged},
    {"ShardedLoad", &FaultTest::PrepareNothing, &FaultTest::LoadSharded, FileFault::kError},
    {"ShardedLoadOfAShortFile", &FaultTest::PrepareNothing, &FaultTest::LoadSharded,
     FileFault::kShort},
    {"RecycledLoad", &FaultTest::PrepareCache, &FaultTest::LoadWide, FileFault::kError},
    {"RecycledLoadOfAShortFile", &FaultTest::PrepareCache, &FaultTest::LoadWide, FileFault::kShort},
    {"Adoption", &FaultTest::PrepareRetained, &FaultTest::LoadTwin, FileFault::kError},
    {"AdoptionOfAShortFile", &FaultTest::PrepareRetained, &FaultTest::LoadTwin, FileFault::kShort},
    {"AdoptionOfAChangedFile", &FaultTest::PrepareRetained, &FaultTest::LoadTwin,
     FileFault::kChanged},
    {"LoadThatReclaims", &FaultTest::PrepareRetained, &FaultTest::LoadWide, FileFault::kError},
    {"LoadThatReclaimsForAChangedFile", &FaultTest::PrepareRetained, &FaultTest::LoadWide,
     FileFault::kChanged},
    {"Replacement", &FaultTest::PrepareActive, &FaultTest::LoadTwin, FileFault::kError},
    {"ExportOfAShare", &FaultTest::PrepareLease, &FaultTest::Export, FileFault::kError},
};

INSTANTIATE_TEST_SUITE_P(Each, FaultTest, ::testing::ValuesIn(kUndertakings), NameOf);
// A step that hangs is the same whatever it would have said.
INSTANTIATE_TEST_SUITE_P(Each, HangTest,
                         ::testing::Values(kUndertakings[0], kUndertakings[5], kUndertakings[7],
                                           kUndertakings[10], kUndertakings[13]),
                         NameOf);

}  // namespace
}  // namespace tenure
