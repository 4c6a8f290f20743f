// The pools of a HandleSession: their segments on the way in and out.

#include <algorithm>
#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/handle_session.h"
#include "client/cpp/host_pool_mapping.h"

namespace tenure::client {
namespace {

constexpr size_t kSegmentsPerBatch = 64;
constexpr Duration kSweepInterval = std::chrono::milliseconds(250);

// Maps the segments of a batch until one fails; `tried` says with how many it was tried.
absl::Status MapAll(PoolMapping& mapping, std::vector<UniqueFd>& fds, const v1::PoolBatch& batch,
                    size_t& tried) {
  for (UniqueFd& fd : fds) {
    const v1::PoolSegment& segment = batch.segments(static_cast<int>(tried));
    ++tried;
    TENURE_CLIENT_RETURN_IF_ERROR(mapping.Map(std::move(fd), segment.offset(), segment.size()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<PoolMapping>> HandleSession::MapSegments(
    const PoolSpec& pool, std::vector<uint64_t> offsets, Deadline deadline,
    const std::stop_token& cancel) {
  auto fetch = std::make_shared<PoolFetch>();
  fetch->pool = pool;
  fetch->offsets = std::move(offsets);
  return Await(fetch, deadline, cancel);
}

absl::StatusOr<std::shared_ptr<PoolMapping>> HandleSession::Await(
    const std::shared_ptr<PoolFetch>& fetch, Deadline deadline, const std::stop_token& cancel) {
  // Before the lock, which it takes.
  const std::stop_callback on_stop(cancel, [this] {
    const std::lock_guard lock(mutex_);
    fetched_.notify_all();
  });
  std::unique_lock lock(mutex_);
  if (lost_.load()) return lost_status_;
  pools_.Renew(fetch->pool);
  pool_queue_.push_back(fetch);
  mailbox_->Wake();
  while (!fetch->done && deadline.left() > Duration(0) && !cancel.stop_requested()) {
    fetched_.wait_until(lock, deadline.at());
  }
  if (!fetch->done) {
    fetch->abandoned = true;
    if (cancel.stop_requested()) {
      return absl::CancelledError("stop was requested while the memory of a pool was mapped");
    }
    return absl::DeadlineExceededError("the memory of a pool was not mapped in time");
  }
  TENURE_CLIENT_RETURN_IF_ERROR(fetch->status);
  return pools_.FindMapping(fetch->pool.pool_id);
}

void HandleSession::UnmapSegments(uint64_t pool_id, const std::vector<uint64_t>& offsets) {
  const std::lock_guard lock(mutex_);
  for (const uint64_t offset : offsets) pool_returns_.emplace_back(pool_id, offset);
  mailbox_->Wake();
}

bool HandleSession::Listen(uint64_t pool_id, std::weak_ptr<PoolListener> listener) {
  const std::lock_guard lock(mutex_);
  return !lost_.load() && pools_.Listen(pool_id, std::move(listener));
}

void HandleSession::SetGiveBack(GiveBack give_back) {
  const std::lock_guard lock(mutex_);
  give_back_ = std::move(give_back);
}

void HandleSession::ReturnSegments() {
  std::vector<SessionPools::Segment> taken;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [pool_id, offset] : std::exchange(pool_returns_, {})) {
      if (auto segment = pools_.Take(pool_id, offset)) taken.push_back(*std::move(segment));
    }
  }
  for (const SessionPools::Segment& segment : taken) UnmapSegment(segment);
}

void HandleSession::UnmapSegment(const SessionPools::Segment& segment) {
  const std::shared_ptr<PoolMapping> mapping = segment.mapping;
  const std::string device = segment.device;
  Perform(
      device, mapping->waits(),
      [mapping, offset = segment.offset, bytes = segment.bytes] {
        return mapping->Unmap(offset, bytes);
      },
      [this, segment](const absl::Status& status) {
        if (absl::IsUnavailable(status)) return Again([this, segment] { UnmapSegment(segment); });
        if (status.ok()) unmapped_.push_back(segment.share_serial);
        const std::lock_guard lock(mutex_);
        pools_.FinishUnmap(segment, status);
        if (lost_.load()) TellSurvivors();
      });
}

void HandleSession::StartPoolFetches() {
  if (closing_.load()) return;
  std::vector<std::shared_ptr<PoolFetch>> started;
  {
    const std::lock_guard lock(mutex_);
    for (auto next = pool_queue_.begin(); next != pool_queue_.end();) {
      if (pool_fetches_.try_emplace((*next)->pool.device.name, *next).second) {
        started.push_back(std::move(*next));
        next = pool_queue_.erase(next);
      } else {
        ++next;
      }
    }
  }
  for (const std::shared_ptr<PoolFetch>& fetch : started) Reserve(fetch);
}

void HandleSession::Reserve(const std::shared_ptr<PoolFetch>& fetch) {
  std::unique_lock lock(mutex_);
  const bool known = pools_.FindMapping(fetch->pool.pool_id) != nullptr;
  lock.unlock();
  if (known) return BeginPoolFetch(fetch, absl::OkStatus());

  const bool host = fetch->pool.device.memory_kind == MemoryKind::kHost;
  Perform(
      fetch->pool.device.name, !host,
      [fetch, host, cuda = host ? nullptr : CudaOf(fetch->pool.device)]() -> absl::Status {
        const uint64_t bytes = fetch->pool.range_bytes;
        TENURE_CLIENT_ASSIGN_OR_RETURN(
            fetch->mapping, host ? HostPoolMapping::Reserve(bytes) : cuda->ReservePool(bytes));
        return absl::OkStatus();
      },
      [this, fetch](absl::Status status) {
        if (status.ok()) {
          const std::lock_guard lock(mutex_);
          pools_.Add(fetch->pool, std::move(fetch->mapping));
          next_sweep_ = Now() + kSweepInterval;
        }
        BeginPoolFetch(fetch, std::move(status));
      });
}

void HandleSession::ContinuePoolFetch(const std::shared_ptr<PoolFetch>& fetch,
                                      absl::Status status) {
  if (status.ok()) status = Alive();
  if (status.ok()) {
    const std::lock_guard lock(mutex_);
    if (fetch->abandoned) status = absl::CancelledError("nobody waits for it any more");
  }
  if (!status.ok() || fetch->mapped == fetch->offsets.size()) {
    return FinishPoolFetch(fetch, std::move(status));
  }
  fetch->step = PoolFetch::Step::kReady;
  AskNext();
}

std::vector<uint64_t> HandleSession::PoolFetch::NextBatch() const {
  const auto first = offsets.begin() + static_cast<ptrdiff_t>(mapped);
  const size_t count = std::min(kSegmentsPerBatch, offsets.size() - mapped);
  return {first, first + static_cast<ptrdiff_t>(count)};
}

void HandleSession::AskForPool(PoolFetch& fetch) {
  v1::ClientPacket packet;
  packet.mutable_fetch_pool()->set_pool_id(fetch.pool.pool_id);
  for (const uint64_t offset : fetch.NextBatch()) packet.mutable_fetch_pool()->add_offsets(offset);
  Queue(packet);
  fetch.step = PoolFetch::Step::kAsked;
}

absl::Status HandleSession::OnPoolBatch(const v1::PoolBatch& batch, ReceivedPacket& packet) {
  const std::shared_ptr<PoolFetch> fetch = AskedPool();
  if (fetch == nullptr || batch.pool_id() != fetch->pool.pool_id || batch.segments().empty()) {
    return ProtocolError("segments of a pool that were not asked for");
  }
  const std::vector<uint64_t> asked = fetch->NextBatch();
  const bool fits =
      std::equal(asked.begin(), asked.end(), batch.segments().begin(), batch.segments().end(),
                 [&](uint64_t offset, const v1::PoolSegment& segment) {
                   return segment.offset() == offset && segment.size() == fetch->pool.segment_bytes;
                 });
  if (!fits) return ProtocolError("segments of a pool are other ones than asked for");
  fetch->step = PoolFetch::Step::kWorking;
  const bool lacking = packet.fds_lost || packet.fds.size() != asked.size();
  if (lacking) packet.fds.clear();
  v1::ClientPacket ack;
  ack.mutable_share_ack()->set_share_serial(batch.segments().rbegin()->share_serial());
  ack.mutable_share_ack()->set_next_segment(static_cast<uint32_t>(asked.size()));
  Queue(ack);

  std::shared_ptr<PoolMapping> mapping;
  {
    const std::lock_guard lock(mutex_);
    mapping = pools_.FindMapping(batch.pool_id());
  }
  for (const v1::PoolSegment& segment : batch.segments()) {
    fetch->coming.push_back(segment.share_serial());
  }
  const auto tried = std::make_shared<size_t>(0);
  const auto done = [this, fetch, batch, tried](absl::Status status) {
    OnBatchMapped(fetch, batch, *tried, std::move(status));
  };
  if (lacking) {
    done(absl::ResourceExhaustedError(
        "this process has too many files open to receive the memory; raise its nofile limit"));
  } else {
    Perform(
        fetch->pool.device.name, mapping->waits(),
        [mapping, batch, tried,
         fds = std::make_shared<std::vector<UniqueFd>>(std::move(packet.fds))] {
          absl::Status status = MapAll(*mapping, *fds, batch, *tried);
          fds->clear();
          return status;
        },
        done);
  }
  AskNext();
  return absl::OkStatus();
}

// The one that failed may be mapped all the same: it is unmapped like those before it, and not told
// to be gone before that.
void HandleSession::OnBatchMapped(const std::shared_ptr<PoolFetch>& fetch,
                                  const v1::PoolBatch& batch, size_t tried, absl::Status status) {
  const auto count = static_cast<size_t>(batch.segments_size());
  for (size_t i = 0; i < count; ++i) {
    const v1::PoolSegment& segment = batch.segments(static_cast<int>(i));
    if (i >= tried) {
      unmapped_.push_back(segment.share_serial());
      continue;
    }
    const std::lock_guard lock(mutex_);
    pools_.AddSegment({.pool_id = batch.pool_id(),
                       .device = fetch->pool.device.name,
                       .offset = segment.offset(),
                       .share_serial = segment.share_serial(),
                       .bytes = segment.size(),
                       .mapping = nullptr});
  }
  fetch->mapped += tried;
  // Those of a batch that were not mapped are back with the daemon by that word.
  fetch->given_back = count - tried;
  fetch->coming.clear();
  if (status.ok() && fetch->recalled) {
    status = absl::AbortedError("the daemon wanted the memory back while it was mapped");
  }
  ContinuePoolFetch(fetch, std::move(status));
}

void HandleSession::FinishPoolFetch(const std::shared_ptr<PoolFetch>& fetch, absl::Status status) {
  pool_fetches_.erase(fetch->pool.device.name);
  const auto at = [&](size_t index) {
    return fetch->offsets.begin() + static_cast<ptrdiff_t>(index);
  };
  bool failed = false;
  {
    const std::lock_guard lock(mutex_);
    failed = !status.ok() || fetch->abandoned;
    const uint64_t pool_id = fetch->pool.pool_id;
    if (failed) {
      for (auto each = at(0); each != at(fetch->mapped); ++each) {
        pool_returns_.emplace_back(pool_id, *each);
      }
      const std::vector<uint64_t> unseen(at(fetch->mapped + fetch->given_back),
                                         fetch->offsets.end());
      if (!unseen.empty() && !fetch->of_buffer && give_back_) give_back_(pool_id, unseen);
    }
    fetch->done = true;
    fetch->status = std::move(status);
    fetched_.notify_all();
  }
  if (failed) {
    ReturnSegments();
    // Before somebody else asks for the same ones.
    TellUnmapped();
  }
  StartPoolFetches();
  AskNext();
}

std::shared_ptr<HandleSession::PoolFetch> HandleSession::AskedPool() const {
  for (const auto& [device, fetch] : pool_fetches_) {
    if (fetch->step == PoolFetch::Step::kAsked) return fetch;
  }
  return nullptr;
}

absl::Status HandleSession::OnPoolRefused(const v1::PoolRefused& refused) {
  const std::shared_ptr<PoolFetch> fetch = AskedPool();
  if (fetch == nullptr || fetch->pool.pool_id != refused.pool_id()) {
    return ProtocolError("a refusal of segments that were not asked for");
  }
  FinishPoolFetch(
      fetch, MakeError(absl::StatusCode::kFailedPrecondition, refused.reason(), refused.message()));
  return absl::OkStatus();
}

void HandleSession::OnPoolRecall(const v1::PoolRecall& recall) {
  std::vector<SessionPools::Segment> taken;
  {
    const std::lock_guard lock(mutex_);
    for (const uint64_t serial : recall.share_serials()) {
      if (auto segment = pools_.TakeShare(serial)) taken.push_back(*std::move(segment));
    }
  }
  for (const auto& [device, fetch] : pool_fetches_) {
    for (const uint64_t serial : recall.share_serials()) {
      if (std::count(fetch->coming.begin(), fetch->coming.end(), serial) > 0) {
        fetch->recalled = true;
      }
    }
  }
  for (const SessionPools::Segment& segment : taken) UnmapSegment(segment);
}

void HandleSession::OnMemoryWanted(const v1::MemoryWanted& wanted) {
  std::unique_lock lock(mutex_);
  const SessionPools::Listeners listeners = pools_.ListenersOf(wanted.pool_id());
  lock.unlock();
  for (const SessionPools::Listening& each : listeners) {
    Tell(
        each, [bytes = wanted.bytes()](PoolListener& pool) { pool.OnMemoryWanted(bytes); }, [] {});
  }
}

void HandleSession::LosePools(const SessionPools::Listeners& listeners, const std::string& reason) {
  for (const SessionPools::Listening& each : listeners) each.listener->OnPoolLost(reason);
}

void HandleSession::OnPoolLost(const v1::PoolLost& lost) {
  std::unique_lock lock(mutex_);
  const SessionPools::Listeners listeners = pools_.Lose(lost.pool_id());
  lock.unlock();
  LeavePool(lost.pool_id());
  LosePools(listeners, lost.reason());
}

void HandleSession::SweepPools(Instant now) {
  std::unique_lock lock(mutex_);
  const SessionPools::Listeners overdue = pools_.LoseOverdue(now, renewed_at_.load());
  const SessionPools::Listeners all =
      now >= next_sweep_ ? pools_.AllListeners() : SessionPools::Listeners();
  lock.unlock();
  LosePools(overdue, std::string(kHeartbeatMissed));
  if (now < next_sweep_) return;
  next_sweep_ = now + kSweepInterval;
  for (const SessionPools::Listening& each : all) {
    if (!sweeping_.insert(each.listener.get()).second) continue;
    Tell(
        each, [now](PoolListener& pool) { pool.OnSweep(now); },
        [this, swept = each.listener.get()] { sweeping_.erase(swept); });
  }
}

// The listener is let go of in the session's thread: it may be the last that holds the session.
void HandleSession::Tell(const SessionPools::Listening& whom,
                         std::function<void(PoolListener&)> what, std::function<void()> done) {
  Perform(
      whom.device, whom.waits,
      [listener = whom.listener.get(), what = std::move(what)] {
        what(*listener);
        return absl::OkStatus();
      },
      [listener = whom.listener, done = std::move(done)](const absl::Status&) { done(); });
}

}  // namespace tenure::client
