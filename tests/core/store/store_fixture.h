#pragma once

#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/store/store.h"
#include "tests/support/gated_files.h"
#include "tests/support/manual_clock.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/small_device.h"
#include "tests/support/temp_dir.h"

namespace tenure {

// Keeps what Sessions are told. Thread-safe.
class RecordedEvents final : public SessionEvents {
 public:
  struct RecallEvent {
    SessionId session;
    ShareSerial share;
    RegionId region;
  };
  struct LostEvent {
    SessionId session;
    LeaseId lease;
    Reason reason;
  };

  void OnRecall(SessionId session, ShareSerial share, RegionId region, Duration) override {
    const MutexLock lock(mutex_);
    recalls_.push_back({session, share, region});
    changed_.NotifyAll();
  }
  void OnLeaseLost(SessionId session, LeaseId lease, RegionId, Reason reason) override {
    const MutexLock lock(mutex_);
    lost_.push_back({session, lease, reason});
  }

  void OnExported(SessionId, ExportId id, StatusOr<ExportedBatch> batch) override {
    const MutexLock lock(mutex_);
    exported_.emplace(id, std::move(batch));
    changed_.NotifyAll();
  }

  struct PoolRecallEvent {
    SessionId session;
    PoolId pool;
    std::vector<ShareSerial> shares;
  };
  struct WantedEvent {
    SessionId session;
    PoolId pool;
    Bytes bytes;
  };
  struct LostPoolEvent {
    SessionId session;
    PoolId pool;
    Reason reason;
  };
  void OnPoolRecall(SessionId session, PoolId pool, std::span<const ShareSerial> shares,
                    Duration) override {
    const MutexLock lock(mutex_);
    pool_recalls_.push_back({session, pool, {shares.begin(), shares.end()}});
    changed_.NotifyAll();
  }
  void OnMemoryWanted(SessionId session, PoolId pool, Bytes bytes) override {
    const MutexLock lock(mutex_);
    wanted_.push_back({session, pool, bytes});
    changed_.NotifyAll();
  }
  void OnPoolLost(SessionId session, PoolId pool, Reason reason) override {
    const MutexLock lock(mutex_);
    lost_pools_.push_back({session, pool, reason});
  }

  std::vector<PoolRecallEvent> TakePoolRecalls() {
    const MutexLock lock(mutex_);
    return std::exchange(pool_recalls_, {});
  }
  std::vector<PoolRecallEvent> AwaitPoolRecalls() {
    const MutexLock lock(mutex_);
    while (pool_recalls_.empty()) changed_.Wait(mutex_);
    return std::exchange(pool_recalls_, {});
  }
  std::vector<WantedEvent> AwaitWanted() {
    const MutexLock lock(mutex_);
    while (wanted_.empty()) changed_.Wait(mutex_);
    return std::exchange(wanted_, {});
  }
  std::vector<LostPoolEvent> TakeLostPools() {
    const MutexLock lock(mutex_);
    return std::exchange(lost_pools_, {});
  }

  std::vector<RecallEvent> TakeRecalls() {
    const MutexLock lock(mutex_);
    return std::exchange(recalls_, {});
  }
  std::vector<RecallEvent> AwaitRecalls() {
    const MutexLock lock(mutex_);
    while (recalls_.empty()) changed_.Wait(mutex_);
    return std::exchange(recalls_, {});
  }
  std::vector<LostEvent> TakeLost() {
    const MutexLock lock(mutex_);
    return std::exchange(lost_, {});
  }

  bool HasExported(ExportId id) {
    const MutexLock lock(mutex_);
    return exported_.contains(id);
  }
  StatusOr<ShareExport> AwaitExported(ExportId id) { return Await<ShareExport>(id); }
  StatusOr<PoolExport> AwaitPoolExported(ExportId id) { return Await<PoolExport>(id); }

 private:
  template <typename Batch>
  StatusOr<Batch> Await(ExportId id) {
    const MutexLock lock(mutex_);
    while (!exported_.contains(id)) changed_.Wait(mutex_);
    TENURE_ASSIGN_OR_RETURN(ExportedBatch batch, std::move(exported_.extract(id).mapped()));
    return std::get<Batch>(std::move(batch));
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<ExportId, StatusOr<ExportedBatch>> exported_ ABSL_GUARDED_BY(mutex_);
  std::vector<PoolRecallEvent> pool_recalls_ ABSL_GUARDED_BY(mutex_);
  std::vector<WantedEvent> wanted_ ABSL_GUARDED_BY(mutex_);
  std::vector<LostPoolEvent> lost_pools_ ABSL_GUARDED_BY(mutex_);
  std::vector<RecallEvent> recalls_ ABSL_GUARDED_BY(mutex_);
  std::vector<LostEvent> lost_ ABSL_GUARDED_BY(mutex_);
};

// All of a lease's Segments, as a client gets them.
inline StatusOr<ShareExport> FetchShare(Store& store, RecordedEvents& events, SessionId session,
                                        LeaseId lease) {
  TENURE_ASSIGN_OR_RETURN(const ExportId id, store.BeginExport(session, lease, 0, 64));
  StatusOr<ShareExport> batch = events.AwaitExported(id);
  (void)store.EndExport(id, /*sent=*/batch.ok());
  return batch;
}

// A store over SmallDevices with 4 KiB granules and 16 KiB Segments, real files, and a clock that
// the test moves.
class StoreTest : public ::testing::Test {
 protected:
  static constexpr Bytes kSegment = KiB(16);

  static DeviceStoreOptions DefaultOptions() {
    DeviceStoreOptions options;
    options.weights_capacity = KiB(256);
    options.segment_size = kSegment;
    options.retain_ttl = std::chrono::seconds(60);
    return options;
  }

  // What the store gets to see of its Devices and files.
  virtual std::unique_ptr<Device> Show(std::unique_ptr<SmallDevice> device) { return device; }
  virtual FileLayer& ShownFiles() { return files_; }

  // Starts the store, before anything else; one that runs is stopped first.
  void Start(DeviceStoreOptions options = DefaultOptions(), int devices = 1) {
    store_.reset();
    hardware_.clear();
    std::vector<DeviceOptions> list;
    for (int i = 0; i < devices; ++i) {
      auto device = std::make_unique<SmallDevice>("host:" + std::to_string(i));
      hardware_.push_back(device.get());
      list.push_back(DeviceOptions{.device = Show(std::move(device)), .store = options});
    }
    store_ = std::make_unique<Store>(
        StoreOptions{.model_roots = {ModelRoot{.name = "models", .path = directory_.path()}}},
        std::move(list), clock_, ShownFiles(), events_);
    session_ = OpenSession("tester");
  }

  SessionId OpenSession(const std::string& program) {
    return store_->OpenSession(
        SessionIdentity{.program = program, .instance = "0", .uid = 0, .gid = 0, .pid = 0});
  }

  // One tensor for each size.
  static std::vector<TensorSpec> SpecsOf(const std::vector<Bytes>& sizes) {
    std::vector<TensorSpec> specs;
    for (size_t i = 0; i < sizes.size(); ++i) {
      specs.push_back(TensorSpec{
          .name = "t" + std::to_string(i), .dtype = DType::kU8, .shape = {sizes[i].count()}});
    }
    return specs;
  }
  // Writes a model; equal sizes make equal architectures.
  void WriteModel(const std::string& file, const std::vector<Bytes>& sizes, uint64_t seed) {
    WriteSafetensors(directory_.path() + "/" + file, SpecsOf(sizes), seed);
  }

  LoadRequest RequestFor(const std::string& name, const std::string& file) const {
    LoadRequest request;
    request.session = session_;
    request.name = name;
    request.path = "models/" + file;
    return request;
  }

  StatusOr<LoadResult> Load(const std::string& name, const std::string& file) {
    return store_->Load(RequestFor(name, file), {});
  }
  StatusOr<LoadResult> LoadLeased(const std::string& name, const std::string& file) {
    LoadRequest request = RequestFor(name, file);
    request.acquire = true;
    return store_->Load(request, {});
  }
  StatusOr<UnloadResult> Unload(const std::string& name) { return store_->Unload(name, {}, ""); }

  // Advances the clock and does what is due.
  void Pass(Duration span) {
    clock_.Advance(span);
    store_->Tick();
    store_->devices()[0]->Validate();
  }

  Ledger LedgerNow(size_t device = 0) const {
    return store_->devices()[device]->TakeSnapshot().ledger;
  }
  BackendCounters Backend(size_t device = 0) const { return hardware_[device]->counters(); }

  // The lease's Segments, as its Session gets them. Registers a Share.
  StatusOr<ShareExport> Fetch(SessionId session, LeaseId lease) {
    return FetchShare(*store_, events_, session, lease);
  }

  // The inodes of the lease's Segments, in order. Registers a Share.
  std::vector<ino_t> InodesOf(SessionId session, LeaseId lease) {
    std::vector<ino_t> inodes;
    const StatusOr<ShareExport> batch = Fetch(session, lease);
    EXPECT_TRUE(batch.ok()) << batch.status();
    for (const UniqueFd& fd : batch->fds) inodes.push_back(InodeOf(fd));
    return inodes;
  }

  TempDir directory_;
  ManualClock clock_;
  GatedFiles files_;
  RecordedEvents events_;
  std::vector<SmallDevice*> hardware_;
  std::unique_ptr<Store> store_;
  SessionId session_;
};

}  // namespace tenure
