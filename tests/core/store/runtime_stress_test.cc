// Lets eight threads do to one RuntimeStore, at the same time, whatever comes to their minds. A
// failure prints the seed; TENURE_STRESS_SEED=N runs that one, though threads never meet twice in
// the same way.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/store/runtime_store.h"
#include "tests/core/store/store_fixture.h"
#include "tests/support/manual_clock.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kThreads = 8;
constexpr int kRounds = 4;
constexpr auto kRoundTakes = milliseconds(500);
constexpr size_t kSessions = 5;
constexpr size_t kHang = 500;
constexpr Bytes kSegment = KiB(64);
constexpr Bytes kCapacity = KiB(1024);

class RuntimeStressTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  // A session, one after the other, as its process sees it.
  struct Place {
    std::mutex mutex;
    SessionId session;                    // guarded by mutex
    std::map<ShareSerial, ino_t> shares;  // guarded by mutex: what it has mapped
  };
  struct Held {
    size_t place;
    SessionId session;
    PoolGrant grant;
  };
  // One thread: its own luck and the grants it knows. Others may have ended the session.
  struct Actor {
    std::mt19937_64 random;
    std::vector<Held> held;

    size_t Pick(size_t below) {
      return std::uniform_int_distribution<size_t>(0, below - 1)(random);
    }
    bool Chance(size_t percent) { return Pick(100) < percent; }
  };

  RuntimeStressTest() {
    RuntimeStoreOptions options;
    options.capacity = kCapacity;
    options.segment_size = kSegment;
    options.pool_ttl = seconds(2);
    options.cache_ttl = seconds(3);
    options.lease_ttl = seconds(4);
    store_ = std::make_unique<RuntimeStore>(device_, options, clock_, ids_, events_);
    for (Place& place : places_) place.session = Open();
  }

  SessionId Open() {
    const SessionId session(++last_session_);
    store_->OpenSession(session, {.program = "actor", .instance = std::to_string(session.value())});
    return session;
  }
  SessionId SessionAt(size_t place) {
    const std::lock_guard lock(places_[place].mutex);
    return places_[place].session;
  }
  static void ExpectReasoned(const Status& status) {
    EXPECT_TRUE(status.ok() || DetailOf(status).has_value()) << status;
  }

  void AcquireSomething(Actor& actor) {
    const size_t place = actor.Pick(kSessions);
    PoolRequest request{.session = SessionAt(place),
                        .wanted = SegmentsSpec{},
                        .priority = static_cast<uint32_t>(actor.Pick(3)),
                        .wait = milliseconds(actor.Chance(30) ? actor.Pick(500) : 0)};
    const auto kind = [&] { return static_cast<BufferKind>(actor.Pick(kAllBufferKinds.size())); };
    if (actor.Chance(40)) {
      request.wanted = SegmentsSpec{.kind = kind(), .bytes = KiB(actor.Pick(400))};
    } else {
      std::vector<BufferSpec> specs;
      for (size_t i = 0; i <= actor.Pick(4); ++i) {
        specs.push_back({.size = Bytes(1 + actor.Pick(actor.Chance(10) ? 500'000 : 50'000)),
                         .alignment = Bytes(256U << actor.Pick(4)),
                         .kind = kind()});
      }
      request.wanted = specs;
    }
    CallLimits limits;
    if (actor.Chance(20)) limits.deadline = clock_.Now() + milliseconds(actor.Pick(500));
    // How often the call looks around, some fifty times a second.
    const size_t patience = actor.Chance(20) ? actor.Pick(3) : kHang;
    size_t looked = 0;
    limits.cancelled = [&] { return looked++ >= patience; };
    StatusOr<PoolGrant> grant = store_->Acquire(request, limits);
    ExpectReasoned(grant.status());
    EXPECT_LT(looked, kHang) << "a request that does not end";
    if (grant.ok()) actor.held.push_back({place, request.session, *std::move(grant)});
  }

  void ReleaseSomething(Actor& actor) {
    if (actor.held.empty()) return;
    const auto held = actor.held.begin() + static_cast<long>(actor.Pick(actor.held.size()));
    for (const Buffer& buffer : held->grant.buffers) {
      const std::optional<Status> released = store_->Release(held->session, buffer.id);
      if (released.has_value()) ExpectReasoned(*released);
    }
    if (!held->grant.segments.empty()) {
      const auto shrunk = store_->Shrink(held->session, held->grant.pool.id, held->grant.segments);
      if (shrunk.has_value()) ExpectReasoned(*shrunk);
    }
    actor.held.erase(held);
  }

  // As the handle socket: one thing at a time for each session.
  void FetchSomething(Actor& actor) {
    if (actor.held.empty()) return;
    const Held& held = actor.held[actor.Pick(actor.held.size())];
    Place& place = places_[held.place];
    const std::lock_guard lock(place.mutex);
    if (place.session != held.session) return;
    std::vector<Bytes> offsets = held.grant.segments;
    for (const Buffer& buffer : held.grant.buffers) {
      offsets.push_back(kSegment * (buffer.place.begin() / kSegment));
    }
    std::sort(offsets.begin(), offsets.end());
    offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
    if (offsets.empty()) return;
    const auto id = store_->BeginExport(held.session, held.grant.pool.id, offsets);
    if (!id.has_value()) return;
    ExpectReasoned(id->status());
    if (!id->ok()) return;
    const StatusOr<PoolExport> batch = events_.AwaitPoolExported(**id);
    ExpectReasoned(batch.status());
    const bool sent = batch.ok() && actor.Chance(90);
    if (sent) {
      for (size_t i = 0; i < batch->fds.size(); ++i) {
        const ino_t inode = InodeOf(batch->fds[i]);
        place.shares[batch->segments[i].share] = inode;
        Own(inode, held.session);
      }
    }
    if (batch.ok()) (void)store_->EndExport(**id, sent);
  }

  // No two sessions may have the same memory mapped.
  void Own(ino_t inode, SessionId session) {
    const std::lock_guard lock(owners_mutex_);
    const auto [owner, fresh] = owners_.try_emplace(inode, session);
    EXPECT_TRUE(fresh || owner->second == session)
        << "one memory is mapped by sessions " << owner->second.value() << " and "
        << session.value();
  }
  // REQUIRES: the place's mutex.
  void Unmap(Place& place, ShareSerial share) {
    const auto found = place.shares.find(share);
    if (found == place.shares.end()) return;
    {
      const std::lock_guard lock(owners_mutex_);
      owners_.erase(found->second);
    }
    place.shares.erase(found);
    (void)store_->Unmapped(place.session, share);
  }

  void UnmapSomething(Actor& actor) {
    Place& place = places_[actor.Pick(kSessions)];
    const std::lock_guard lock(place.mutex);
    if (!place.shares.empty()) Unmap(place, place.shares.begin()->first);
  }

  void EndSomebody(Actor& actor) {
    Place& place = places_[actor.Pick(kSessions)];
    const std::lock_guard lock(place.mutex);
    if (actor.Chance(50)) store_->CloseSession(place.session);
    if (actor.Chance(50)) store_->Tick();
    {
      const std::lock_guard owners(owners_mutex_);
      for (const auto& [share, inode] : place.shares) owners_.erase(inode);
    }
    place.shares.clear();
    store_->EndSession(place.session);
    place.session = Open();
  }

  void LookAround() {
    store_->Validate();
    const Ledger ledger = store_->TakeSnapshot().ledger;
    EXPECT_EQ(ledger.capacity,
              ledger.allocated() + ledger.retained + ledger.free() + ledger.stranded);
    EXPECT_LE(ledger.reserved, ledger.capacity);
  }

  void Step(Actor& actor) {
    const size_t dice = actor.Pick(100);
    if (dice < 30) {
      AcquireSomething(actor);
    } else if (dice < 55) {
      ReleaseSomething(actor);
    } else if (dice < 70) {
      FetchSomething(actor);
    } else if (dice < 80) {
      UnmapSomething(actor);
    } else if (dice < 88) {
      store_->RenewSession(SessionAt(actor.Pick(kSessions)));
    } else if (dice < 91) {
      EndSomebody(actor);
    } else if (dice < 95) {
      clock_.Advance(milliseconds(actor.Pick(actor.Chance(5) ? 5'000 : 200)));
      store_->Tick();
    } else {
      LookAround();
    }
  }

  // Most answer their recalls.
  void Attend() {
    for (const auto& recall : events_.TakePoolRecalls()) {
      for (Place& place : places_) {
        const std::lock_guard lock(place.mutex);
        if (place.session != recall.session) continue;
        for (const ShareSerial share : recall.shares) {
          if (share.value() % 4 != 0) Unmap(place, share);
        }
      }
    }
    clock_.Advance(milliseconds(1));
    store_->Tick();
    std::this_thread::sleep_for(milliseconds(1));
  }

  void RunRound(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::atomic<bool> over = false;
    std::atomic<int> running = kThreads;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, own_seed = random()] {
        SCOPED_TRACE("TENURE_STRESS_SEED=" + std::to_string(GetParam()));
        Actor actor{.random = std::mt19937_64(own_seed), .held = {}};
        while (!over && !HasFailure()) Step(actor);
        --running;
      });
    }
    const SteadyClock real_clock;
    const Instant end = After(real_clock.Now(), kRoundTakes);
    while (running > 0) {
      Attend();
      if (random() % 50 == 0) device_.FailCreation(1);
      if (real_clock.Now() > end) over = true;
    }
    for (std::thread& thread : threads) thread.join();
    device_.FailCreation(0);
  }

  // While nobody does anything, every figure can be checked against every other.
  void CheckAtRest() {
    while (!store_->TakeSnapshot().ledger.loading.zero()) std::this_thread::yield();
    store_->Validate();
    const RuntimeStore::Snapshot now = store_->TakeSnapshot();
    EXPECT_EQ(now.waiting, 0U);
    const BackendCounters backend = device_.counters();
    // What is on its way back to the backend may have arrived there already.
    EXPECT_LE(backend.bytes_created - backend.bytes_destroyed, now.ledger.reserved);
  }

  ManualClock clock_;
  SmallDevice device_{"host:0", MiB(2)};
  IdSequences ids_;
  RecordedEvents events_;
  std::unique_ptr<RuntimeStore> store_;
  std::atomic<uint64_t> last_session_ = 0;
  std::array<Place, kSessions> places_;
  std::mutex owners_mutex_;
  std::map<ino_t, SessionId> owners_;  // guarded by owners_mutex_
};

TEST_P(RuntimeStressTest, WhateverThreadsDoAtOnceTheLedgerBalancesAndNobodySharesMemory) {
  SCOPED_TRACE("TENURE_STRESS_SEED=" + std::to_string(GetParam()));
  for (uint64_t round = 0; round < kRounds && !HasFailure(); ++round) {
    RunRound(GetParam() * kRounds + round);
    CheckAtRest();
  }
  const RuntimeStore::Snapshot end = store_->TakeSnapshot();
  EXPECT_GT(end.counters.buffers_granted, 0U);
  EXPECT_GT(end.counters.segments_granted, 0U);
  for (Place& place : places_) store_->EndSession(place.session);
  const auto empty = [&] {
    clock_.Advance(seconds(5));
    store_->Tick();
    const Ledger ledger = store_->TakeSnapshot().ledger;
    return ledger.allocated().zero() && ledger.unbacked == ledger.capacity;
  };
  while (!empty()) std::this_thread::sleep_for(milliseconds(1));
  store_->Validate();
  const BackendCounters backend = device_.counters();
  EXPECT_EQ(backend.bytes_created, backend.bytes_destroyed);
  EXPECT_EQ(store_->TakeSnapshot().pools, 0U);
}

std::vector<uint64_t> Seeds() {
  const char* const chosen = std::getenv("TENURE_STRESS_SEED");
  if (chosen != nullptr) return {std::strtoull(chosen, nullptr, 10)};
  return {1};
}

INSTANTIATE_TEST_SUITE_P(Seeds, RuntimeStressTest, ::testing::ValuesIn(Seeds()));

}  // namespace
}  // namespace tenure
