#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/checkpoint/checkpoint.h"
#include "core/lease/request_log.h"
#include "core/store/device_store.h"
#include "core/store/fit.h"
#include "core/store/load.h"
#include "core/store/parsed_model.h"
#include "core/store/pool_grant.h"
#include "core/store/runtime_store.h"
#include "core/store/session.h"
#include "core/transfer/copy_engine.h"

namespace tenure {

struct StoreOptions {
  std::vector<ModelRoot> model_roots;
  int copy_threads = 2;
};

struct DeviceOptions {
  std::unique_ptr<Device> device;
  DeviceStoreOptions store;
  RuntimeStoreOptions runtime = {};
};

// What the daemon owns: the weights and the runtime memory of all its Devices. Finds the Device for
// each call, and knows which request a reply belongs to; everything else happens in the stores of
// each. Thread-safe.
class Store {
 public:
  // `clock`, `files` and `events` outlive the store. REQUIRES: at least one device; names differ.
  Store(StoreOptions options, std::vector<DeviceOptions> devices, const Clock& clock,
        FileLayer& files, SessionEvents& events);
  ~Store();

  // --- Sessions.
  // Ids start at 1 and are never used again.
  SessionId OpenSession(const SessionIdentity& identity);
  // Heartbeat: renews all its leases.
  void RenewSession(SessionId session);
  // The connection is gone or not trusted any more, its process may live: no new grants; leases
  // expire.
  void CloseSession(SessionId session);
  // Its process has ended.
  void EndSession(SessionId session);
  // As DeviceStore::SetSurviving, by the names of the Devices; those not listed have none, those
  // not known are ignored.
  struct Surviving {
    Bytes weights = {};
    Bytes runtime = {};
  };
  void SetSurviving(SessionId session, const std::map<std::string, Surviving>& sizes);

  // --- Models.
  StatusOr<LoadResult> Load(const LoadRequest& request, const CallLimits& limits);
  // Checks the files of a LoadRequest and tells what they hold; takes no memory.
  StatusOr<ModelView> Inspect(const LoadRequest& request);
  // Whether the model at `path`, as in a LoadRequest, would find room: what each Device says, or
  // the one named. DEVICE_NOT_FOUND, and as Inspect. Takes nothing.
  StatusOr<std::vector<DeviceFit>> FitModel(const std::string& path, const std::string& device);
  // The same for any model of `size` bytes.
  StatusOr<std::vector<DeviceFit>> FitWeights(Bytes size, const std::string& device) const;
  // As DeviceStore::Unload; INVALID_REQUEST if `device` is empty and several have the model.
  StatusOr<UnloadResult> Unload(const std::string& name, Revision revision,
                                const std::string& device);
  StatusOr<ModelView> GetModel(const std::string& name, Revision revision,
                               const std::string& device) const;
  // In the order of name, device, revision.
  std::vector<ModelView> Models() const;
  std::optional<LoadProgress> ProgressOf(const std::string& name, const std::string& device) const;

  // --- Leases. Once a call with a request id has ended without a reply, ReleaseRequest releases
  // whatever it granted or will still grant.
  StatusOr<GrantedLease> Acquire(SessionId session, const std::string& name,
                                 const std::string& device, std::optional<Duration> ttl,
                                 const std::string& request_id);
  Status Release(SessionId session, LeaseId lease);
  // A request that arrives after its withdrawal is refused.
  Status ReleaseLoadRequest(SessionId session, const std::string& request_id);
  Status ReleaseAcquireRequest(SessionId session, const std::string& request_id);
  // The Generation is that of the lease's Region now, or not valid if there is no such Region.
  DeviceStore::Renewal Renew(SessionId session, LeaseId lease);

  // --- Runtime memory.
  // As RuntimeStore::Acquire, on the Device named, or else on the one where the Session has a Pool,
  // or where there is most room. DEVICE_NOT_FOUND. INVALID_REQUEST for a spec that is not valid, or
  // too many of them.
  StatusOr<PoolGrant> AcquirePool(const PoolRequest& request, const std::string& device,
                                  const std::string& request_id, const CallLimits& limits);
  // Whether it would be granted: what each Device says, or the one named. Errors as in AcquirePool.
  // Takes nothing.
  StatusOr<std::vector<DeviceFit>> FitPool(const PoolRequest& request, const std::string& device);
  // Releases whatever the request was granted or will still be granted.
  Status ReleasePoolRequest(SessionId session, const std::string& request_id);
  // LEASE_NOT_FOUND, LEASE_EXPIRED.
  Status ReleaseBuffer(SessionId session, BufferId buffer);
  Status ShrinkPool(SessionId session, PoolId pool, std::span<const Bytes> offsets);

  // --- Shares.
  // As in DeviceStore; LEASE_NOT_FOUND if no Device has the lease.
  StatusOr<ExportId> BeginExport(SessionId session, LeaseId lease, uint32_t first, uint32_t limit);
  // Likewise, of Segments of a Pool.
  StatusOr<ExportId> BeginPoolExport(SessionId session, PoolId pool,
                                     std::span<const Bytes> offsets);
  // CANCELLED if no such export has begun, or it has ended.
  Status CheckExport(ExportId id) const;
  bool EndExport(ExportId id, bool sent);
  // False if the Session has no such Share.
  bool Unmapped(SessionId session, ShareSerial share);

  // Does what is due. To be called a few dozen times a second.
  void Tick();

  // --- Views.
  const std::vector<std::unique_ptr<DeviceStore>>& devices() const { return devices_; }
  const std::vector<std::unique_ptr<RuntimeStore>>& runtimes() const { return runtimes_; }
  const std::vector<ModelRoot>& model_roots() const { return options_.model_roots; }
  // What happened, for all to read.
  const EventLog& event_log() const { return event_log_; }
  // Over all Devices and both arenas: leases on Regions and Pools, and their Shares.
  RegionUse UseBy(SessionId session) const;
  // Loads that were refused before a Device was asked: by Reason, since start.
  std::map<std::string, uint64_t> RefusedLoads() const;

 private:
  void NoteSession(EventKind kind, SessionId session, std::string subject);
  bool IsLive(SessionId session, LeaseId lease) const;
  StatusOr<RuntimeStore*> RuntimeFor(SessionId session, const std::string& device) const;
  bool Holds(SessionId session, const PoolGrant& grant) const;
  // What nobody will read the reply for.
  void TakeBack(SessionId session, const PoolGrant& grant);
  // Counts a load that no Device was asked for, and returns `error`.
  Status Refused(const Status& error);
  // Finds, opens and checks the files of a model.
  StatusOr<PreparedModel> Prepare(const std::string& path);
  // INVALID_REQUEST.
  static Status CheckWanted(const PoolRequest& request);
  StatusOr<LoadResult> LoadOnce(const LoadRequest& request, const CallLimits& limits);
  // The stores a call may mean: the one named, or all. DEVICE_NOT_FOUND.
  StatusOr<std::vector<DeviceStore*>> Named(const std::string& name) const;

  const StoreOptions options_;
  const Clock& clock_;
  FileLayer& files_;
  const CopyEngine copy_engine_;
  ParsedModels parsed_models_;
  IdSequence<SessionId> session_ids_;
  IdSequences ids_;
  EventLog event_log_;
  std::vector<std::unique_ptr<Device>> hardware_;
  std::vector<std::unique_ptr<DeviceStore>> devices_;    // in the order of the configuration
  std::vector<std::unique_ptr<RuntimeStore>> runtimes_;  // likewise
  mutable Mutex mutex_;
  std::map<std::string, uint64_t> refused_loads_ ABSL_GUARDED_BY(mutex_);
  RequestLog<LoadResult> load_requests_;
  RequestLog<GrantedLease> acquire_requests_;
  RequestLog<PoolGrant> pool_requests_;
};

}  // namespace tenure
