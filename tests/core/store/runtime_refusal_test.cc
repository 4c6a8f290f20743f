#include <future>
#include <gtest/gtest.h>
#include <random>
#include <sstream>

#include "core/store/runtime_store.h"
#include "tests/core/store/store_fixture.h"

// Why requests for runtime memory are refused, each reason in turn, and that what is said before a
// request is what comes of it. field case 2

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A runtime arena of 64 MiB in Segments of 8 MiB, and a clock that the test moves.
class RuntimeRefusalTest : public ::testing::Test {
 protected:
  ~RuntimeRefusalTest() override { device_.HoldDestructions(false); }

  void Start(Duration pool_ttl = seconds(10), Duration cache_ttl = kForever) {
    RuntimeStoreOptions options;
    options.capacity = MiB(64);
    options.segment_size = MiB(8);
    options.pool_ttl = pool_ttl;
    options.cache_ttl = cache_ttl;
    store_ = std::make_unique<RuntimeStore>(device_, options, clock_, ids_, events_);
    for (const SessionId session : {a_, b_}) {
      store_->OpenSession(session,
                          {.program = "client", .instance = std::to_string(session.value())});
    }
  }

  static PoolRequest RequestOf(SessionId session, std::vector<BufferSpec> specs) {
    return {.session = session, .wanted = std::move(specs)};
  }
  StatusOr<PoolGrant> Acquire(SessionId session, std::vector<BufferSpec> specs,
                              const CallLimits& limits = {}) {
    return store_->Acquire(RequestOf(session, std::move(specs)), limits);
  }
  // Which waits for what is on its way, until the clock says that it is late.
  std::future<StatusOr<PoolGrant>> AcquireWithin(SessionId session, Bytes size, Duration time) {
    CallLimits limits;
    limits.deadline = clock_.Now() + time;
    auto waiting = std::async(std::launch::async, [this, session, size, limits] {
      return Acquire(session, {{.size = size}}, limits);
    });
    while (store_->TakeSnapshot().waiting == 0) std::this_thread::yield();
    return waiting;
  }
  void Pass(Duration span) {
    clock_.Advance(span);
    store_->Tick();
    store_->Validate();
  }

  // What Promise 4 asks of every refusal.
  void ExpectExplained(const Status& refused, Reason reason, Bytes needed, bool held = true) {
    ASSERT_TRUE(HasReason(refused, reason)) << refused;
    std::map<std::string, std::string> values;
    for (const auto& [name, value] : DetailOf(refused).value_or(ErrorDetail{}).values) {
      values[name] = value;
    }
    EXPECT_EQ(values["needed_bytes"], std::to_string(needed.count()));
    EXPECT_EQ(values["capacity_bytes"], std::to_string(MiB(64).count()));
    EXPECT_TRUE(values.contains("free_bytes") && values.contains("largest_free_bytes") &&
                values.contains("largest_buffer_bytes"));
    EXPECT_EQ(values["holders"].find("client/1") != std::string::npos, held) << values["holders"];
    EXPECT_FALSE(values["hint"].empty());
    const std::string message(refused.message());
    EXPECT_TRUE(message.ends_with(values["hint"])) << message;
    EXPECT_EQ(message.find("TTL"), std::string::npos);
    EXPECT_EQ(message.find("ttl"), std::string::npos);
    EXPECT_EQ(store_->TakeSnapshot().counters.refusals.at(std::string(ReasonName(reason))), 1U);
  }
  static std::string HintOf(const Status& refused) {
    for (const auto& [name, value] : DetailOf(refused).value_or(ErrorDetail{}).values) {
      if (name == "hint") return value;
    }
    return "";
  }

  ManualClock clock_;
  SmallDevice device_{"host:0", MiB(128)};
  IdSequences ids_;
  RecordedEvents events_;
  std::unique_ptr<RuntimeStore> store_;
  const SessionId a_{1};
  const SessionId b_{2};
};

TEST_F(RuntimeRefusalTest, MoreThanTheArenaIsRefusedForCapacity) {
  Start();
  ASSERT_TRUE(Acquire(a_, {{.size = MiB(1)}}).ok());
  const Status refused = Acquire(b_, {{.size = MiB(65)}}).status();
  ExpectExplained(refused, Reason::kCapacity, MiB(65));
  EXPECT_NE(HintOf(refused).find("runtime gets more of host:0"), std::string::npos);
}

// It never fits, though its bytes do: each kind takes whole Segments of its own.
TEST_F(RuntimeRefusalTest, WhatDoesNotFitInWholeSegmentsIsRefusedForCapacity) {
  Start();
  const Status refused = Acquire(a_, {{.size = MiB(20), .kind = BufferKind::kActivation},
                                      {.size = MiB(20), .kind = BufferKind::kWorkspace},
                                      {.size = MiB(20), .kind = BufferKind::kIo}})
                             .status();
  ExpectExplained(refused, Reason::kCapacity, MiB(60), /*held=*/false);
  EXPECT_NE(HintOf(refused).find("in whole segments of 8 MiB it takes 72 MiB"), std::string::npos)
      << HintOf(refused);
}

TEST_F(RuntimeRefusalTest, WhatLiesInPiecesIsRefusedAsFragmented) {
  Start();
  std::vector<Buffer> buffers;
  for (int i = 0; i < 32; ++i) {
    buffers.push_back(Acquire(a_, {{.size = MiB(2)}})->buffers.front());
  }
  for (size_t i = 0; i < buffers.size(); i += 2) {
    ASSERT_TRUE(store_->Release(a_, buffers[i].id)->ok());
  }
  const Status refused = Acquire(a_, {{.size = MiB(24)}}).status();
  ExpectExplained(refused, Reason::kFragmented, MiB(24));
  EXPECT_NE(HintOf(refused).find("beside the largest hole"), std::string::npos);
}

// Nothing lies beside a hole then.
TEST_F(RuntimeRefusalTest, WhatLiesAmongBuffersOfAnotherKindIsNotSaidToLieBesideAHole) {
  Start();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(Acquire(a_, {{.size = MiB(6), .kind = BufferKind::kWorkspace}}).ok());
  }
  ASSERT_TRUE(Acquire(a_, {{.size = MiB(7), .kind = BufferKind::kWorkspace}}).ok());
  const Status refused = Acquire(a_, {{.size = MiB(9), .kind = BufferKind::kIo}}).status();
  ExpectExplained(refused, Reason::kFragmented, MiB(9));
  EXPECT_EQ(HintOf(refused).find("beside"), std::string::npos) << HintOf(refused);
}

TEST_F(RuntimeRefusalTest, WhatOthersHoldIsRefusedWithTheirNames) {
  Start();
  ASSERT_TRUE(Acquire(a_, {{.size = MiB(60)}}).ok());
  const Status refused = Acquire(b_, {{.size = MiB(10)}}).status();
  ExpectExplained(refused, Reason::kHeldByLeases, MiB(10));
  EXPECT_EQ(HintOf(refused).find("quarantined"), std::string::npos);
}

TEST_F(RuntimeRefusalTest, QuarantineIsSpokenOfOnlyWhereThereIsSome) {
  Start();
  const StatusOr<PoolGrant> grant = Acquire(a_, {{.size = MiB(64)}});
  const auto id = store_->BeginExport(a_, grant->pool.id, std::vector<Bytes>{MiB(0)});
  ASSERT_TRUE(events_.AwaitPoolExported(**id).ok());
  ASSERT_TRUE(store_->EndExport(**id, /*sent=*/true));
  Pass(seconds(31));
  const Status refused = Acquire(b_, {{.size = MiB(64)}}).status();
  ExpectExplained(refused, Reason::kHeldByLeases, MiB(64));
  EXPECT_NE(HintOf(refused).find("quarantined bytes come back"), std::string::npos);
}

TEST_F(RuntimeRefusalTest, WhatTheBackendHasNotFreedByTheDeadlineIsPending) {
  Start(/*pool_ttl=*/Duration::zero(), /*cache_ttl=*/Duration::zero());
  const StatusOr<PoolGrant> grant = Acquire(a_, {{.size = MiB(64)}});
  ASSERT_TRUE(store_->Release(a_, grant->buffers[0].id)->ok());
  device_.HoldDestructions(true);
  Pass(seconds(2));
  Pass(seconds(2));
  ASSERT_TRUE(device_.AwaitHeldDestruction());
  const DeviceFit fit = store_->Fit(RequestOf(b_, {{.size = MiB(40)}}));
  EXPECT_EQ(fit.verdict, FitVerdict::kAfterReclaim) << fit.explanation;
  auto waiting = AcquireWithin(b_, MiB(40), seconds(1));
  EXPECT_EQ(waiting.wait_for(milliseconds(30)), std::future_status::timeout);
  clock_.Advance(seconds(1));
  const Status refused = waiting.get().status();
  ExpectExplained(refused, Reason::kReclaimPending, MiB(40), /*held=*/false);
  EXPECT_NE(HintOf(refused).find("a later deadline"), std::string::npos);
  device_.HoldDestructions(false);
  EXPECT_TRUE(Acquire(b_, {{.size = MiB(40)}}).ok());
}

TEST_F(RuntimeRefusalTest, WhatASessionHasNotGivenBackByTheDeadlineIsPending) {
  Start();
  const StatusOr<PoolGrant> grant = Acquire(a_, {{.size = MiB(64)}});
  std::vector<Bytes> offsets;
  for (uint64_t i = 0; i < 8; ++i) offsets.push_back(MiB(8) * i);
  const auto id = store_->BeginExport(a_, grant->pool.id, offsets);
  ASSERT_TRUE(events_.AwaitPoolExported(**id).ok());
  ASSERT_TRUE(store_->EndExport(**id, /*sent=*/true));
  ASSERT_TRUE(store_->Release(a_, grant->buffers[0].id)->ok());
  auto waiting = AcquireWithin(b_, MiB(40), milliseconds(100));
  ASSERT_EQ(events_.AwaitPoolRecalls().at(0).session, a_);
  clock_.Advance(milliseconds(100));
  ExpectExplained(waiting.get().status(), Reason::kReclaimPending, MiB(40));
}

TEST_F(RuntimeRefusalTest, WhatTheBackendDoesNotHaveIsRefusedWithItsWordsAndTheNumbers) {
  Start();
  ASSERT_TRUE(Acquire(a_, {{.size = MiB(8)}}).ok());
  device_.FailCreation(2);
  const Status refused = Acquire(b_, {{.size = MiB(32)}}).status();
  ExpectExplained(refused, Reason::kBackend, MiB(32));
  EXPECT_NE(refused.message().find("the backend was told to fail"), std::string::npos) << refused;
  EXPECT_TRUE(Acquire(b_, {{.size = MiB(32)}}).ok());
}

TEST_F(RuntimeRefusalTest, WhoeverWaitsKeepsTheRoomFromWhatIsAskedAboutLater) {
  Start();
  const StatusOr<PoolGrant> grant = Acquire(a_, {{.size = MiB(48)}});
  PoolRequest patient = RequestOf(b_, {{.size = MiB(32)}});
  patient.wait = seconds(3600);
  auto waiting =
      std::async(std::launch::async, [&] { return store_->Acquire(patient, CallLimits{}); });
  while (store_->TakeSnapshot().waiting == 0) std::this_thread::yield();
  EXPECT_EQ(store_->Fit(RequestOf(a_, {{.size = MiB(10)}})).verdict, FitVerdict::kAfterReclaim);
  ASSERT_TRUE(store_->Release(a_, grant->buffers[0].id)->ok());
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_EQ(store_->Fit(RequestOf(a_, {{.size = MiB(10)}})).verdict, FitVerdict::kNow);
}

TEST_F(RuntimeRefusalTest, ALostDeviceSaysSo) {
  Start();
  device_.Lose();
  store_->Tick();
  const DeviceFit fit = store_->Fit(RequestOf(a_, {{.size = MiB(1)}}));
  EXPECT_EQ(fit.verdict, FitVerdict::kDeviceLost);
  EXPECT_FALSE(fit.explanation.empty());
}

class RuntimeFitTest : public RuntimeRefusalTest, public ::testing::WithParamInterface<uint32_t> {
 protected:
  size_t Pick(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }

  BufferSpec AnySpec() {
    constexpr std::array kMost = {KiB(64), MiB(1), MiB(9), MiB(30), MiB(80)};
    const Bytes most = kMost[Pick(kMost.size())];
    return {.size = Bytes(1 + Pick(most.count())),
            .alignment = Bytes(uint64_t{256} << Pick(14)),
            .kind = kAllBufferKinds[Pick(kAllBufferKinds.size())]};
  }

  // The largest that is named is to be had, and is the largest.
  void CheckLargest(SessionId session) {
    const DeviceFit any = store_->Fit(RequestOf(session, {{.size = Bytes(1)}}));
    const auto fits = [&](Bytes size) {
      return std::any_of(kAllBufferKinds.begin(), kAllBufferKinds.end(), [&](BufferKind kind) {
        return store_->Fit(RequestOf(session, {{.size = size, .kind = kind}})).verdict ==
               FitVerdict::kNow;
      });
    };
    EXPECT_TRUE(any.largest_now.zero() || fits(any.largest_now)) << any.largest_now.count();
    EXPECT_FALSE(fits(any.largest_now + Bytes(1))) << any.largest_now.count();
    EXPECT_LE(any.largest_now, any.largest);
    EXPECT_LE(any.largest, any.capacity);
  }

  std::mt19937 random_;
};

TEST_P(RuntimeFitTest, WhatIsSaidOfARequestIsWhatComesOfIt) {
  random_.seed(GetParam());
  Start();
  std::map<FitVerdict, int> seen;
  std::map<SessionId, std::vector<BufferId>> held;
  for (int step = 0; step < 600; ++step) {
    const SessionId session = Pick(2) == 0 ? a_ : b_;
    std::vector<BufferId>& mine = held[session];
    if (!mine.empty() && Pick(100) < 45) {
      const auto buffer = mine.begin() + static_cast<long>(Pick(mine.size()));
      ASSERT_TRUE(store_->Release(session, *buffer)->ok());
      mine.erase(buffer);
      continue;
    }
    if (Pick(20) == 0) {
      store_->RenewSession(a_);
      store_->RenewSession(b_);
      Pass(seconds(Pick(15)));
    }
    if (step % 10 == 0) CheckLargest(session);
    const BufferSpec spec = AnySpec();
    const Ledger before = store_->TakeSnapshot().ledger;
    const DeviceFit fit = store_->Fit(RequestOf(session, {spec}));
    ASSERT_EQ(store_->TakeSnapshot().ledger, before);
    EXPECT_FALSE(fit.explanation.empty());
    const StatusOr<PoolGrant> grant = Acquire(session, {spec});
    std::ostringstream what;
    what << "seed " << GetParam() << ", step " << step << ": " << spec.size.count() << " aligned "
         << spec.alignment.count() << ": " << fit.explanation << " / " << grant.status();
    ++seen[fit.verdict];
    switch (fit.verdict) {
      case FitVerdict::kNow:
        ASSERT_TRUE(grant.ok()) << what.str();
        EXPECT_EQ(fit.needed, grant->buffers.front().place.size());
        break;
      case FitVerdict::kAfterReclaim:
        ASSERT_TRUE(grant.ok()) << what.str();
        break;
      case FitVerdict::kWhenReleased:
        ASSERT_TRUE(HasReason(grant.status(), Reason::kHeldByLeases) ||
                    HasReason(grant.status(), Reason::kFragmented))
            << what.str();
        break;
      case FitVerdict::kNever:
        ASSERT_TRUE(HasReason(grant.status(), Reason::kCapacity)) << what.str();
        break;
      case FitVerdict::kDeviceLost:
      case FitVerdict::kCordoned:
        FAIL() << what.str();
    }
    if (grant.ok()) mine.push_back(grant->buffers.front().id);
    store_->Validate();
  }
  EXPECT_EQ(seen.size(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RuntimeFitTest, ::testing::Range(1U, 9U));

}  // namespace
}  // namespace tenure
