#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace tenure {

// Makes granting calls of one method safe to repeat: scoped to a Session, a request id names one
// call. A second call with the id joins the first while it runs, and gets its reply while that
// still holds. Other parameters under a used id are refused. Thread-safe.
template <typename Reply>
class RequestLog {
 public:
  // Waits a moment for a running call to end; returns an error to stop waiting.
  using KeepWaiting = std::function<Status()>;

  // Runs `call`, unless the request is known. `holds` tells whether an old reply's grant still
  // lives; `undo` takes a grant back whose request was withdrawn while it ran. Without an id,
  // simply runs `call`. REQUEST_ID_REUSED for other `parameters`, CANCELLED for a withdrawn
  // request.
  StatusOr<Reply> Run(SessionId session, const std::string& request_id, Digest128 parameters,
                      const std::function<StatusOr<Reply>()>& call,
                      const std::function<bool(const Reply&)>& holds,
                      const std::function<void(const Reply&)>& undo,
                      const KeepWaiting& keep_waiting);

  // The caller will never read the reply: a running call is undone when it ends; a later one with
  // the id is refused. Returns the reply of a call that has ended, for the caller to undo.
  std::optional<Reply> Withdraw(SessionId session, const std::string& request_id);

  void Forget(SessionId session);
  // Drops entries whose grant lives no more.
  void Sweep(const std::function<bool(SessionId, const Reply&)>& holds);

 private:
  struct Entry {
    Digest128 parameters{};
    bool running = true;
    bool withdrawn = false;
    std::optional<Reply> reply;  // of a call that ended well
  };
  using Key = std::pair<SessionId, std::string>;

  Mutex mutex_;
  CondVar ended_;
  std::map<Key, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
};

template <typename Reply>
StatusOr<Reply> RequestLog<Reply>::Run(SessionId session, const std::string& request_id,
                                       Digest128 parameters,
                                       const std::function<StatusOr<Reply>()>& call,
                                       const std::function<bool(const Reply&)>& holds,
                                       const std::function<void(const Reply&)>& undo,
                                       const KeepWaiting& keep_waiting) {
  if (request_id.empty()) return call();
  const Key key(session, request_id);
  const auto entry = std::make_shared<Entry>();
  entry->parameters = parameters;
  {
    const MutexLock lock(mutex_);
    while (true) {
      const auto [known, is_new] = entries_.try_emplace(key, entry);
      if (is_new) break;
      const Entry& earlier = *known->second;
      if (earlier.withdrawn) {
        return Error(Reason::kCancelled, "the request was withdrawn: " + request_id);
      }
      if (earlier.parameters != parameters) {
        return Error(Reason::kRequestIdReused,
                     "the request id was used with other parameters: " + request_id);
      }
      if (!earlier.running) {
        if (earlier.reply.has_value() && holds(*earlier.reply)) return *earlier.reply;
        entries_.erase(known);
        continue;
      }
      TENURE_RETURN_IF_ERROR(keep_waiting());
      ended_.WaitFor(mutex_, std::chrono::milliseconds(20));
    }
  }
  StatusOr<Reply> reply = call();
  {
    const MutexLock lock(mutex_);
    entry->running = false;
    ended_.NotifyAll();
    if (!entry->withdrawn) {
      if (reply.ok()) {
        entry->reply = *reply;
      } else {
        entries_.erase(key);
      }
      return reply;
    }
  }
  if (reply.ok()) undo(*reply);
  return Error(Reason::kCancelled, "the request was withdrawn: " + request_id);
}

template <typename Reply>
std::optional<Reply> RequestLog<Reply>::Withdraw(SessionId session, const std::string& request_id) {
  const MutexLock lock(mutex_);
  std::shared_ptr<Entry>& entry = entries_[Key(session, request_id)];
  if (entry == nullptr) {
    entry = std::make_shared<Entry>();
    entry->running = false;
  }
  entry->withdrawn = true;
  return std::exchange(entry->reply, std::nullopt);
}

template <typename Reply>
void RequestLog<Reply>::Forget(SessionId session) {
  const MutexLock lock(mutex_);
  entries_.erase(entries_.lower_bound(Key(session, "")),
                 entries_.lower_bound(Key(SessionId(session.value() + 1), "")));
}

template <typename Reply>
void RequestLog<Reply>::Sweep(const std::function<bool(SessionId, const Reply&)>& holds) {
  const MutexLock lock(mutex_);
  std::erase_if(entries_, [&](const auto& entry) {
    const Entry& call = *entry.second;
    return !call.running && !call.withdrawn && !holds(entry.first.first, *call.reply);
  });
}

}  // namespace tenure
