#include "server/model_watch.h"

#include <chrono>
#include <utility>

#include "server/translate.h"

namespace tenure {
namespace {

constexpr Duration kProgressInterval = std::chrono::milliseconds(100);
// The call whose load failed tells why, a moment after the memory is gone.
constexpr Duration kWaitForReason = std::chrono::milliseconds(200);

}  // namespace

ModelWatch::ModelWatch(const Store& store, const LoadFailures& failures, const Clock& clock,
                       std::string name, std::string device)
    : store_(store),
      failures_(failures),
      clock_(clock),
      name_(std::move(name)),
      device_(std::move(device)),
      failures_seen_(failures.count()),
      progress_due_(clock.Now()) {}

uint64_t ModelWatch::Changes() const {
  uint64_t sum = failures_.count();
  for (const auto& device : store_.devices()) sum += device->change_count();
  return sum;
}

std::optional<v1::WatchModelResponse> ModelWatch::Poll() {
  const Instant now = clock_.Now();
  const uint64_t changes = Changes();
  const std::optional<LoadProgress> progress = store_.ProgressOf(name_, device_);
  const bool progress_due = progress.has_value() ? now >= progress_due_ : was_loading_;
  if (changes == changes_seen_ && !progress_due && !missing_since_.has_value()) return std::nullopt;
  changes_seen_ = changes;
  was_loading_ = progress.has_value();
  return Look(now, progress);
}

std::optional<v1::WatchModelResponse> ModelWatch::Look(
    Instant now, const std::optional<LoadProgress>& progress) {
  const uint64_t failures = failures_.count();
  const StatusOr<ModelView> view = store_.GetModel(name_, Revision(), device_);
  v1::WatchModelResponse message;
  if (view.ok()) {
    *message.mutable_model() = ToProto(*view);
  } else if (progress.has_value()) {
    message.mutable_model()->set_name(name_);
    message.mutable_model()->set_device(device_);
    message.mutable_model()->set_state(v1::MODEL_STATE_LOADING);
  }

  const bool owned =
      view.ok() && (view->state == RegionState::kActive || view->state == RegionState::kDraining);
  if (owned) {
    failures_seen_ = failures;
  } else if (!progress.has_value()) {
    if (const auto failure = failures_.After(failures_seen_, name_, device_)) {
      return End(view.ok() ? message.model() : last_, failure);
    }
  }
  if (!message.has_model()) {
    if (last_.name().empty()) return std::nullopt;  // not known yet
    if (!missing_since_.has_value()) missing_since_ = now;
    const bool may_have_failed = last_.state() == v1::MODEL_STATE_LOADING;
    if (may_have_failed && now - *missing_since_ < kWaitForReason) return std::nullopt;
    return End(last_, std::nullopt);
  }
  missing_since_.reset();

  v1::WatchModelResponse steady = message;
  steady.mutable_model()->clear_expires_in();
  std::string text = steady.SerializeAsString();
  if (progress.has_value()) {
    *message.mutable_progress() = ToProto(*progress);
    if (text == sent_ && now < progress_due_) return std::nullopt;
    progress_due_ = now + kProgressInterval;
  } else if (text == sent_) {
    return std::nullopt;
  }
  sent_ = std::move(text);
  last_ = message.model();
  return message;
}

std::optional<v1::WatchModelResponse> ModelWatch::End(v1::Model model,
                                                      const std::optional<Status>& failure) {
  ended_ = true;
  v1::WatchModelResponse message;
  *message.mutable_model() = std::move(model);
  if (message.model().name().empty()) message.mutable_model()->set_name(name_);
  if (failure.has_value()) message.set_error(std::string(failure->message()));
  const v1::ModelState state = message.model().state();
  if (state == v1::MODEL_STATE_LOADING || state == v1::MODEL_STATE_UNSPECIFIED ||
      !failure.has_value()) {
    message.mutable_model()->set_state(v1::MODEL_STATE_GONE);
  }
  return message;
}

}  // namespace tenure
