#pragma once

#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
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

  static constexpr size_t kMostWithdrawn = 1000;

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
  // the id is refused, as long as it is among the last `kMostWithdrawn` withdrawn ones of the
  // Session. Returns the reply of a call that has ended, for the caller to undo.
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
  struct Requests {
    std::unordered_map<std::string, std::shared_ptr<Entry>> by_id;
    std::deque<std::string> withdrawn;  // the oldest first; each is in by_id
  };

  // Unless the id means another call by now, or the Session was forgotten.
  void Erase(SessionId session, const std::string& request_id, const std::shared_ptr<Entry>& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  CondVar ended_;
  std::unordered_map<SessionId, Requests> sessions_ ABSL_GUARDED_BY(mutex_);
};

template <typename Reply>
StatusOr<Reply> RequestLog<Reply>::Run(SessionId session, const std::string& request_id,
                                       Digest128 parameters,
                                       const std::function<StatusOr<Reply>()>& call,
                                       const std::function<bool(const Reply&)>& holds,
                                       const std::function<void(const Reply&)>& undo,
                                       const KeepWaiting& keep_waiting) {
  if (request_id.empty()) return call();
  const auto entry = std::make_shared<Entry>();
  entry->parameters = parameters;
  {
    const MutexLock lock(mutex_);
    while (true) {
      auto& by_id = sessions_[session].by_id;
      const auto [known, is_new] = by_id.try_emplace(request_id, entry);
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
        by_id.erase(known);
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
        Erase(session, request_id, entry);
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
  Requests& requests = sessions_[session];
  std::shared_ptr<Entry>& entry = requests.by_id[request_id];
  if (entry == nullptr) {
    entry = std::make_shared<Entry>();
    entry->running = false;
  }
  std::optional<Reply> reply = std::exchange(entry->reply, std::nullopt);
  if (std::exchange(entry->withdrawn, true)) return reply;
  requests.withdrawn.push_back(request_id);
  if (requests.withdrawn.size() > kMostWithdrawn) {
    requests.by_id.erase(requests.withdrawn.front());
    requests.withdrawn.pop_front();
  }
  return reply;
}

template <typename Reply>
void RequestLog<Reply>::Forget(SessionId session) {
  const MutexLock lock(mutex_);
  sessions_.erase(session);
}

template <typename Reply>
void RequestLog<Reply>::Sweep(const std::function<bool(SessionId, const Reply&)>& holds) {
  const MutexLock lock(mutex_);
  for (auto next = sessions_.begin(); next != sessions_.end();) {
    const SessionId session = next->first;
    auto& by_id = next->second.by_id;
    std::erase_if(by_id, [&](const auto& request) {
      const Entry& call = *request.second;
      return !call.running && !call.withdrawn && !holds(session, *call.reply);
    });
    next = by_id.empty() ? sessions_.erase(next) : std::next(next);
  }
}

template <typename Reply>
void RequestLog<Reply>::Erase(SessionId session, const std::string& request_id,
                              const std::shared_ptr<Entry>& entry) {
  const auto requests = sessions_.find(session);
  if (requests == sessions_.end()) return;
  const auto found = requests->second.by_id.find(request_id);
  if (found != requests->second.by_id.end() && found->second == entry) {
    requests->second.by_id.erase(found);
  }
}

}  // namespace tenure
