#include <array>
#include <future>
#include <iterator>
#include <list>
#include <map>
#include <random>
#include <sstream>

#include "tests/core/store/model_content.h"
#include "tests/core/store/store_fixture.h"

// Drives a store with random operations, time being one of them, and checks after each that the
// ledger balances, that every table agrees with every other, that whoever may read a Region reads
// the bytes it was leased for, and that no load was refused while there was room. A failure prints
// the seed and the operations.

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Checkpoint {
  std::string file;
  ModelContent content;
};

struct HeldLease {
  LeaseId id;
  RegionId region;
  const Checkpoint* content = nullptr;
};

struct SimulatedClient {
  SessionId session;
  bool answers_recalls = true;
  std::vector<HeldLease> leases;             // as far as it knows
  std::map<RegionId, MappedShare> mappings;  // as long as the store may think that it reads
};

class PropertyTest : public StoreTest, public ::testing::WithParamInterface<uint32_t> {
 protected:
  void Prepare() {
    DeviceStoreOptions options = DefaultOptions();
    options.weights_capacity = KiB(160);
    options.retain_ttl = seconds(20);
    options.cache_ttl = seconds(15);
    options.default_lease_ttl = seconds(8);
    options.idle_unload_after = seconds(40);
    Start(options);
    const std::array<std::vector<Bytes>, 4> architectures = {{
        {Bytes(5'000), Bytes(300), Bytes(9'000)},
        {Bytes(20'000)},
        {Bytes(40'000), Bytes(17), Bytes(10'000)},
        {Bytes(60'000), Bytes(30'000)},
    }};
    for (size_t a = 0; a < architectures.size(); ++a) {
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        const std::string file = "m" + std::to_string(a) + "-" + std::to_string(seed);
        WriteModel(file, architectures[a], seed);
        checkpoints_.push_back({file, ModelContent(SpecsOf(architectures[a]), seed)});
      }
    }
    for (int i = 0; i < 4; ++i) AddClient();
  }

  size_t Pick(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }
  bool Chance(int percent) { return Pick(100) < static_cast<size_t>(percent); }
  SimulatedClient& AnyClient() {
    return *std::next(clients_.begin(), static_cast<long>(Pick(clients_.size())));
  }
  std::string AnyName() { return "name" + std::to_string(Pick(6)); }

  void AddClient() {
    SimulatedClient& client = clients_.emplace_back();
    client.session = OpenSession("client");
    client.answers_recalls = Chance(70);
  }

  // Some only say so: they keep the memory, though nothing of it is theirs any more.
  void Unmap(SimulatedClient& client, std::map<RegionId, MappedShare>::iterator mapping) {
    if (Chance(20)) hoarded_.push_back(std::move(mapping->second));
    client.mappings.erase(mapping);
  }

  void AnswerRecalls() {
    for (const auto& recall : events_.TakeRecalls()) {
      for (SimulatedClient& client : clients_) {
        if (client.session != recall.session || !client.answers_recalls) continue;
        const auto mapping = client.mappings.find(recall.region);
        if (mapping == client.mappings.end() || mapping->second.serial() != recall.share) continue;
        Unmap(client, mapping);
        store_->Unmapped(client.session, recall.share);
      }
    }
  }

  // Runs a load in a thread of its own, while clients answer recalls and time passes. None waits
  // for much more than the recalls of all Regions, one after another.
  StatusOr<LoadResult> RunLoad(const LoadRequest& request) {
    CallLimits limits;
    limits.deadline = clock_.Now() + seconds(50);
    auto load = std::async(std::launch::async, [&] { return store_->Load(request, limits); });
    while (load.wait_for(std::chrono::microseconds(200)) != std::future_status::ready) {
      AnswerRecalls();
      clock_.Advance(milliseconds(5));
      store_->Tick();
    }
    return load.get();
  }

  void LoadSomething() {
    SimulatedClient& client = AnyClient();
    const Checkpoint& checkpoint = checkpoints_[Pick(checkpoints_.size())];
    LoadRequest request = RequestFor(AnyName(), checkpoint.file);
    request.session = client.session;
    request.acquire = Chance(50);
    request.pin = Chance(5);
    if (Chance(10)) request.retain_ttl = Duration::zero();
    if (Chance(5)) files_.FailRead(1 + static_cast<int>(Pick(2)));
    if (Chance(5)) hardware_[0]->FailCreation(1);
    log_ << "load " << request.name << " from " << request.path << "\n";
    const StatusOr<LoadResult> loaded = RunLoad(request);
    EXPECT_FALSE(HasReason(loaded.status(), Reason::kDeadline)) << "a load that does not end";
    files_.FailRead(0);
    hardware_[0]->FailCreation(0);
    if (loaded.ok()) {
      if (request.acquire) {
        client.leases.push_back({loaded->lease->id, loaded->lease->region, &checkpoint});
      }
      return;
    }
    const bool for_room = HasReason(loaded.status(), Reason::kCapacity) ||
                          HasReason(loaded.status(), Reason::kHeldByLeases);
    if (for_room) CheckThereWasNoRoom(checkpoint);
  }

  // What was refused does not fit into what is free, and what is retained and could have been had:
  // nobody has it mapped, or whoever has answered its recall.
  void CheckThereWasNoRoom(const Checkpoint& checkpoint) {
    Bytes room = LedgerNow().free();
    for (const ModelView& model : store_->Models()) {
      const bool offline =
          model.state == RegionState::kRetained || model.state == RegionState::kEmpty;
      if (offline && model.holders.empty()) room += model.region_bytes;
    }
    EXPECT_LT(room, AlignUp(checkpoint.content.layout().total(), SmallDevice::kGranule));
  }

  void AcquireSomething() {
    SimulatedClient& client = AnyClient();
    const std::string name = AnyName();
    log_ << "acquire " << name << "\n";
    const StatusOr<ModelView> model = store_->GetModel(name, {}, "");
    const StatusOr<GrantedLease> lease = store_->Acquire(client.session, name, "", {}, "");
    if (!lease.ok()) return;
    ASSERT_TRUE(model.ok());
    for (const Checkpoint& checkpoint : checkpoints_) {
      if (!model->path.ends_with("/" + checkpoint.file)) continue;
      client.leases.push_back({lease->id, lease->region, &checkpoint});
    }
  }

  void MapSomething() {
    SimulatedClient& client = AnyClient();
    if (client.leases.empty()) return;
    const HeldLease lease = client.leases[Pick(client.leases.size())];
    if (client.mappings.contains(lease.region)) return;
    log_ << "map region " << lease.region.value() << "\n";
    const StatusOr<ShareExport> share = Fetch(client.session, lease.id);
    if (!share.ok()) return;
    client.mappings.emplace(lease.region, *share);
    // Leases that it had on the Region before without a map may have expired; then the Region may
    // have got another content since.
    std::erase_if(client.leases, [&](const HeldLease& other) {
      return other.region == lease.region && other.content != lease.content;
    });
  }

  void ReleaseSomething() {
    SimulatedClient& client = AnyClient();
    if (client.leases.empty()) return;
    const auto lease = client.leases.begin() + static_cast<long>(Pick(client.leases.size()));
    log_ << "release lease " << lease->id.value() << "\n";
    (void)store_->Release(client.session, lease->id);
    const RegionId region = lease->region;
    client.leases.erase(lease);
    // With the last live one it has given up those that expired before, too.
    const auto live = [&](const HeldLease& other) {
      return other.region == region && store_->devices()[0]->IsLive(client.session, other.id);
    };
    if (std::any_of(client.leases.begin(), client.leases.end(), live)) return;
    std::erase_if(client.leases, [&](const HeldLease& other) { return other.region == region; });
  }

  void UnmapSomethingIdle() {
    SimulatedClient& client = AnyClient();
    for (auto mapping = client.mappings.begin(); mapping != client.mappings.end(); ++mapping) {
      const bool leased = std::any_of(client.leases.begin(), client.leases.end(),
                                      [&](const auto& l) { return l.region == mapping->first; });
      if (leased) continue;
      log_ << "unmap region " << mapping->first.value() << "\n";
      const ShareSerial serial = mapping->second.serial();
      Unmap(client, mapping);
      EXPECT_TRUE(store_->Unmapped(client.session, serial));
      return;
    }
  }

  // Some clients end at once; others hang up first and go on reading until their process ends.
  void EndSomebody() {
    SimulatedClient& client = AnyClient();
    log_ << "end session " << client.session.value() << "\n";
    if (Chance(50)) {
      store_->CloseSession(client.session);
      CheckEverything();
    }
    client.mappings.clear();
    store_->EndSession(client.session);
    clients_.remove_if([&](const SimulatedClient& c) { return c.session == client.session; });
    AddClient();
  }

  void Step() {
    const size_t dice = Pick(100);
    if (dice < 25) {
      LoadSomething();
    } else if (dice < 40) {
      const std::string name = AnyName();
      log_ << "unload " << name << "\n";
      (void)Unload(name);
    } else if (dice < 52) {
      AcquireSomething();
    } else if (dice < 62) {
      MapSomething();
    } else if (dice < 75) {
      ReleaseSomething();
    } else if (dice < 80) {
      UnmapSomethingIdle();
    } else if (dice < 83) {
      EndSomebody();
    } else if (dice < 85) {
      if (hoarded_.empty()) return;
      log_ << "let go of a hoarded region\n";
      hoarded_.pop_front();
    } else if (dice < 90) {
      SimulatedClient& client = AnyClient();
      log_ << "renew session " << client.session.value() << "\n";
      store_->RenewSession(client.session);
    } else {
      const Duration span = milliseconds(1 + Pick(Chance(10) ? 30'000 : 2'000));
      log_ << "pass " << span / milliseconds(1) << " ms\n";
      clock_.Advance(span);
      store_->Tick();
    }
    AnswerRecalls();
  }

  void CheckEverything() {
    store_->devices()[0]->Validate();
    const Ledger ledger = LedgerNow();
    EXPECT_EQ(ledger.capacity, ledger.leased + ledger.loading + ledger.idle + ledger.retained +
                                   ledger.quarantined + ledger.padding + ledger.free() +
                                   ledger.stranded);
    EXPECT_LE(ledger.reserved, ledger.capacity);
    const BackendCounters backend = Backend();
    EXPECT_LE(backend.bytes_created - backend.bytes_destroyed + ledger.stranded, ledger.capacity);
    for (const SimulatedClient& client : clients_) {
      for (const HeldLease& lease : client.leases) {
        const auto mapping = client.mappings.find(lease.region);
        if (mapping == client.mappings.end()) continue;
        // As long as the client has not given it back, even if it has expired.
        EXPECT_TRUE(lease.content->content.IsIn(mapping->second))
            << "foreign bytes in " << lease.content->file;
      }
    }
  }

  std::mt19937 random_;
  std::ostringstream log_;
  std::vector<Checkpoint> checkpoints_;
  std::list<SimulatedClient> clients_;
  std::list<MappedShare> hoarded_;
};

TEST_P(PropertyTest, WhateverHappensTheLedgerBalancesAndNobodyReadsForeignBytes) {
  random_.seed(GetParam());
  Prepare();
  for (int step = 0; step < 500; ++step) {
    Step();
    CheckEverything();
    if (HasFatalFailure() || HasNonfatalFailure()) {
      FAIL() << "seed " << GetParam() << ", after:\n" << log_.str();
    }
  }
  // Once everybody is gone and every TTL is over, nothing is left.
  for (SimulatedClient& client : clients_) {
    client.mappings.clear();
    store_->EndSession(client.session);
  }
  store_->devices()[0]->WaitUntilQuiet();
  EXPECT_EQ(LedgerNow().stranded, hardware_[0]->stranded(SegmentUse::kWeights));
  hoarded_.clear();
  for (int i = 0; i < 6; ++i) (void)Unload("name" + std::to_string(i));
  Pass(seconds(100));
  Pass(seconds(100));
  store_->devices()[0]->WaitUntilQuiet();
  EXPECT_EQ(LedgerNow().free(), LedgerNow().capacity);
  EXPECT_EQ(LedgerNow().reserved, Bytes(0));
  EXPECT_EQ(Backend().segments_created, Backend().segments_destroyed);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PropertyTest, ::testing::Range(1U, 9U));

}  // namespace
}  // namespace tenure
