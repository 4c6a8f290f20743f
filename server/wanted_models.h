#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/store/store.h"
#include "server/pin_file.h"
#include "server/wanted_model.h"

namespace tenure {

// The models that are to be online without being asked for: those of the configuration, and those
// that were pinned when the last daemon in the directory ended. Brings each online once, as room
// appears, on a thread of its own. Keeps the file that tells the next daemon what is pinned beside
// what is configured; what could not be written is tried again until it can. Thread-safe.
class WantedModels {
 public:
  // Reads the file at `pin_path`. Of a name that is both configured and in the file, what is
  // configured counts. `store` outlives this.
  WantedModels(Store& store, const std::string& pin_path, std::vector<WantedModel> configured);
  ~WantedModels();

  // `on_ready` is called from any thread, but one at a time, whenever it changes whether nothing is
  // pending; at first something is.
  void Start(std::function<void(bool ready)> on_ready);
  // Tries nothing any more, and calls nobody. Waits for the load under way, which is told to end.
  void Stop();

  // From now on these are configured, and others are not. What is new or says something else is
  // brought online; what is gone is taken offline, unless a caller has put other content under the
  // name since.
  void SetConfigured(const std::vector<WantedModel>& configured);

  // A caller is about to load what `load` says: one that is to be pinned is in the file from here
  // on. BACKEND, naming the file and the cause, if that cannot be written; then it is not to be
  // loaded.
  Status OnLoading(const LoadRequest& load);
  // Ends what OnLoading began: the model could not be loaded, or it was, which is what is wanted of
  // its name now.
  void OnLoadFailed(const LoadRequest& load);
  void OnLoaded(const LoadRequest& load, const ModelView& model);
  // A caller has unloaded `name` on `device` (empty: any).
  void OnUnloaded(const std::string& name, const std::string& device);

  struct Pending {
    WantedModel model;
    bool loading = false;
    Status error;  // of the last try; OK before the first
  };
  struct Progress {
    // Nothing is pending but what the daemon can do nothing about.
    bool ready = false;
    size_t wanted = 0;             // without those that callers settled
    std::vector<Pending> pending;  // not online yet
  };
  Progress GetProgress() const;

 private:
  void Run();
  // Waits for something to do; false once there is to be nothing any more.
  bool AwaitWork();
  // Whether trying again could end otherwise than the last time. `look`: it is time to look at the
  // files again.
  bool MayHelp(const Pending& pending, bool look) const;
  void Try(const WantedModel& model);
  void Finish(const WantedModel& model, const Status& result);
  void Settle(const std::string& name, const std::string& device);
  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellIfReady();
  void Withdraw(const WantedModel& model);
  bool Configured(const std::string& name, const std::string& device) const;
  bool IsConfigured(const std::string& name, const std::string& device) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the file is to say of a load that is to be pinned.
  WantedModel PinFor(const LoadRequest& load) const;
  void EndLoad(const LoadRequest& load);
  Status SavePins();
  // As SavePins; what fails is tried again.
  void SavePinsSoon();
  std::vector<Pending>::iterator FindPending(const WantedModel& model)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Store& store_;
  PinFile pins_;

  Mutex saving_;   // one writer of the file at a time; before mutex_
  Mutex telling_;  // one call of on_ready_ at a time; before mutex_

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<WantedModel> configured_ ABSL_GUARDED_BY(mutex_);
  std::vector<WantedModel> online_ ABSL_GUARDED_BY(mutex_);     // brought online here
  std::vector<WantedModel> withdrawn_ ABSL_GUARDED_BY(mutex_);  // while they were being loaded
  std::vector<WantedModel> loading_ ABSL_GUARDED_BY(mutex_);    // to be pinned, by callers
  std::vector<WantedModel> saved_ ABSL_GUARDED_BY(mutex_);      // what the file says
  Status save_error_ ABSL_GUARDED_BY(mutex_);  // of the last SavePinsSoon that is not made good yet
  std::function<void(bool ready)> on_ready_ ABSL_GUARDED_BY(mutex_);
  bool told_ready_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stopping_ = false;

  std::thread thread_;
};

}  // namespace tenure
