#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tenure/v1/model.pb.h>

#include "core/base/clock.h"
#include "core/store/store.h"
#include "server/load_failures.h"

namespace tenure {

// What one WatchModel call has seen and has still to tell. Thread-compatible.
class ModelWatch {
 public:
  // All references outlive the watch. An empty `device` means any.
  ModelWatch(const Store& store, const LoadFailures& failures, const Clock& clock, std::string name,
             std::string device);

  // The next message, if there is something new; to be called a few dozen times a second.
  std::optional<v1::WatchModelResponse> Poll();
  // True after the last message: the model's memory is gone, or its load has failed.
  bool ended() const { return ended_; }

 private:
  std::optional<v1::WatchModelResponse> Look(Instant now,
                                             const std::optional<LoadProgress>& progress);
  std::optional<v1::WatchModelResponse> End(v1::Model model, const std::optional<Status>& failure);
  uint64_t Changes() const;

  const Store& store_;
  const LoadFailures& failures_;
  const Clock& clock_;
  const std::string name_;
  const std::string device_;

  uint64_t failures_seen_;
  std::optional<uint64_t> changes_seen_;
  bool was_loading_ = false;
  Instant progress_due_;
  std::optional<Instant> missing_since_;
  v1::Model last_;    // as last sent; without a name before anything was
  std::string sent_;  // the last message, without what changes all the time
  bool ended_ = false;
};

}  // namespace tenure
