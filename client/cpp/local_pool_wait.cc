// Acquire, when nothing that is free fits.

#include <algorithm>
#include <thread>
#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/local_pool.h"
#include "client/cpp/pool_guard.h"

namespace tenure::client {

absl::Status LocalPool::AcquireSlowly(Guard& guard, const Request& request,
                                      const CallOptions& options, PoolBlock& block) {
  const Deadline deadline(options.timeout.value_or(options_.timeout));
  Part& part = PartOf(request.kind);
  Waiter waiter(request);
  Enter(waiter);
  absl::Status refusal;
  while (!waiter.granted) {
    absl::Status failure;
    const bool may_ask = part.line.front() == &waiter && !part.growing;
    if (!valid_) {
      failure = LostError();
    } else if (options.cancel.stop_requested()) {
      failure = absl::CancelledError("stop was requested while waiting for memory of the pool");
    } else if (deadline.left() == Duration(0)) {
      failure =
          refusal.ok() ? absl::DeadlineExceededError("no memory of the pool became free") : refusal;
    } else if (may_ask && (refusal.ok() || TakeOutAll() != 0)) {
      refusal = Grow(guard, waiter, deadline, options.cancel);
    } else if (may_ask && !pending_.MayDrain()) {
      failure = refusal;
    } else {
      Wait(guard, waiter, deadline, options.cancel);
    }
    if (!failure.ok()) {
      Leave(waiter);
      return failure;
    }
  }
  block = waiter.block;
  return absl::OkStatus();
}

void LocalPool::Enter(Waiter& waiter) {
  PartOf(waiter.request.kind).line.push_back(&waiter);
  if (++waiting_ == 1) pending_.SetWatcher(shared_from_this());
  DrainAll();
  Serve();
}

void LocalPool::Leave(Waiter& waiter) {
  Part& part = PartOf(waiter.request.kind);
  part.line.erase(std::find(part.line.begin(), part.line.end(), &waiter));
  if (--waiting_ == 0) pending_.SetWatcher(nullptr);
  ServeLine(part);
  Nudge(part);
}

void LocalPool::Serve() {
  for (Part& part : parts_) ServeLine(part);
}

void LocalPool::ServeLine(Part& part) {
  if (!valid_.load(std::memory_order_relaxed)) return;
  bool served = false;
  while (!part.line.empty()) {
    Waiter& first = *part.line.front();
    if (!Take(first.request, first.block)) break;
    first.granted = true;
    part.line.pop_front();
    if (--waiting_ == 0) pending_.SetWatcher(nullptr);
    if (first.growing) Defer().stops.push_back(first.stop_growing);
    first.changed.notify_all();
    served = true;
  }
  if (served) Nudge(part);
}

void LocalPool::Nudge(Part& part) {
  if (part.line.empty()) return;
  part.line.front()->nudged = true;
  part.line.front()->changed.notify_all();
}

void LocalPool::OnAdvance() {
  Guard guard(*this);
  DrainAll();
  // There may be nothing left to wait for.
  for (Part& part : parts_) Nudge(part);
}

void LocalPool::Wait(Guard& guard, Waiter& waiter, Deadline deadline,
                     const std::stop_token& cancel) {
  if (is_deferred_) {
    // Not within the condition's own lock.
    guard.unlock();
    guard.lock();
    return;
  }
  const bool poll = pending_.has_events();
  const Instant until = poll ? std::min(deadline.at(), Now() + kPoll) : deadline.at();
  waiter.changed.wait_until(guard, cancel, until, [&] { return waiter.granted || waiter.nudged; });
  waiter.nudged = false;
  if (poll) DrainAll();
}

absl::Status LocalPool::Grow(Guard& guard, Waiter& waiter, Deadline deadline,
                             const std::stop_token& cancel) {
  const Request& request = waiter.request;
  Part& part = PartOf(request.kind);
  const uint64_t segments = (request.bytes - 1) / options_.segment_bytes + 1;
  if (part.held - part.used < request.bytes) TakeOut(part, segments);
  part.growing = true;
  waiter.growing = true;
  const bool poll = pending_.had_events();
  guard.unlock();
  absl::StatusOr<SegmentSource::Grown> grown = [&] {
    const std::stop_callback stop(cancel, [&] { waiter.stop_growing.request_stop(); });
    std::jthread poller;
    if (poll) poller = std::jthread([this](const std::stop_token& end) { PollEvents(end); });
    return source_->Grow(request.kind, segments * options_.segment_bytes, deadline,
                         waiter.stop_growing.get_token());
  }();
  guard.lock();
  part.growing = false;
  waiter.growing = false;
  absl::Status status = grown.ok() ? AddSegments(request, *grown) : grown.status();
  if (status.ok()) ServeLine(part);
  Nudge(part);
  return status;
}

absl::Status LocalPool::AddSegments(const Request& request, const SegmentSource::Grown& grown) {
  const uint64_t segment = options_.segment_bytes;
  if (!valid_) return LostError();
  bool sound = grown.offset % segment == 0 && grown.bytes % segment == 0 &&
               grown.bytes >= request.bytes && grown.bytes <= options_.range_bytes &&
               grown.offset <= options_.range_bytes - grown.bytes;
  const auto next = segments_.lower_bound(grown.offset);
  sound = sound && (next == segments_.end() || next->first >= grown.offset + grown.bytes);
  if (!sound) return ProtocolError("segments that are not the pool's, or are its already");
  Part& part = PartOf(request.kind);
  part.allocator.Add(
      tenure::Range(tenure::Bytes(grown.offset), tenure::Bytes(grown.offset + grown.bytes)));
  part.held += grown.bytes;
  for (uint64_t offset = grown.offset; offset < grown.offset + grown.bytes; offset += segment) {
    segments_.emplace(offset, request.kind);
  }
  return absl::OkStatus();
}

void LocalPool::PollEvents(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      Guard guard(*this);
      DrainAll();
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace tenure::client
