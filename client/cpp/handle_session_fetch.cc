// The thread of a HandleSession: everything that maps and unmaps, in that thread or by its jobs.

#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/handle_session.h"
#include "client/cpp/host_mapping.h"

namespace tenure::client {
namespace {

// How many serials one Unmapped carries: well within a packet.
constexpr size_t kSerialsPerPacket = 4000;
// When to try again what a device could not do for the moment.
constexpr Duration kUnmapAgainAfter = std::chrono::milliseconds(500);

// Maps the segments of a batch, the last of the region's if `last`.
absl::Status AppendAll(Mapping& mapping, std::vector<UniqueFd>& fds,
                       const std::vector<uint64_t>& sizes, bool last) {
  for (size_t i = 0; i < fds.size(); ++i) {
    TENURE_CLIENT_RETURN_IF_ERROR(mapping.Append(std::move(fds[i]), sizes[i]));
  }
  if (mapping.complete() == last) return absl::OkStatus();
  return ProtocolError("the segments do not add up to the region's size");
}

absl::Status CheckBatch(const v1::ShareBatch& batch, const ReceivedPacket& packet,
                        uint64_t region_id) {
  if (packet.fds_lost) {
    return absl::ResourceExhaustedError(
        "this process has too many files open to receive the memory; raise its nofile limit");
  }
  const auto count = static_cast<size_t>(batch.segment_sizes_size());
  if (batch.region_id() != region_id || count == 0 || packet.fds.size() != count) {
    return ProtocolError("a batch does not fit what was asked for");
  }
  return absl::OkStatus();
}

}  // namespace

void HandleSession::StartFetches() {
  // Nobody waits for memory any more.
  if (closing_.load()) return;
  std::vector<std::shared_ptr<Fetch>> started;
  {
    const std::lock_guard lock(mutex_);
    for (auto next = fetch_queue_.begin(); next != fetch_queue_.end();) {
      if (fetches_.try_emplace((*next)->lease->device(), *next).second) {
        started.push_back(std::move(*next));
        next = fetch_queue_.erase(next);
      } else {
        ++next;
      }
    }
  }
  for (const std::shared_ptr<Fetch>& fetch : started) Reserve(fetch);
}

void HandleSession::Reserve(const std::shared_ptr<Fetch>& fetch) {
  const HeldLease& lease = *fetch->lease;
  const bool host = lease.memory_kind() == MemoryKind::kHost;
  const auto work = [fetch, host,
                     cuda = host ? nullptr : CudaOf(lease.leased_device())]() -> absl::Status {
    const uint64_t bytes = fetch->lease->region_bytes();
    TENURE_CLIENT_ASSIGN_OR_RETURN(fetch->mapping,
                                   host ? HostMapping::Reserve(bytes) : cuda->Reserve(bytes));
    return absl::OkStatus();
  };
  Perform(lease.device(), !host, work,
          [this, fetch](absl::Status status) { ContinueFetch(fetch, std::move(status)); });
}

std::shared_ptr<LazyCudaDevice> HandleSession::CudaOf(const LeasedDevice& device) {
  Lane& lane = lanes_[device.name];
  if (lane.cuda == nullptr) lane.cuda = std::make_shared<LazyCudaDevice>(device.uuid);
  return lane.cuda;
}

void HandleSession::AskNext() {
  if (Asked() != nullptr || AskedPool() != nullptr) return;
  for (const auto& [device, fetch] : fetches_) {
    if (fetch->step != Fetch::Step::kReady) continue;
    TellUnmapped();
    v1::ClientPacket packet;
    packet.mutable_fetch_share()->set_lease_id(fetch->lease->lease_id());
    packet.mutable_fetch_share()->set_first_segment(fetch->next_segment);
    Queue(packet);
    fetch->step = Fetch::Step::kAsked;
    return;
  }
  for (const auto& [device, fetch] : pool_fetches_) {
    if (fetch->step == PoolFetch::Step::kReady) return AskForPool(*fetch);
  }
}

std::shared_ptr<HandleSession::Fetch> HandleSession::Asked() const {
  for (const auto& [device, fetch] : fetches_) {
    if (fetch->step == Fetch::Step::kAsked) return fetch;
  }
  return nullptr;
}

absl::Status HandleSession::OnShareBatch(const v1::ShareBatch& batch, ReceivedPacket& packet) {
  const std::shared_ptr<Fetch> fetch = Asked();
  if (fetch == nullptr || batch.lease_id() != fetch->lease->lease_id() ||
      batch.first_segment() != fetch->next_segment) {
    return ProtocolError("memory that was not asked for");
  }
  fetch->step = Fetch::Step::kWorking;
  fetch->share_serial = batch.share_serial();
  fetch->next_segment += static_cast<uint32_t>(batch.segment_sizes_size());
  absl::Status fits = CheckBatch(batch, packet, fetch->lease->region_id());
  // The fds lie with this process now, mapped or not.
  if (!fits.ok()) packet.fds.clear();
  v1::ClientPacket ack;
  ack.mutable_share_ack()->set_share_serial(batch.share_serial());
  ack.mutable_share_ack()->set_next_segment(fetch->next_segment);
  Queue(ack);
  if (fits.ok()) {
    Perform(
        fetch->lease->device(), fetch->mapping->waits(),
        [mapping = fetch->mapping,
         fds = std::make_shared<std::vector<UniqueFd>>(std::move(packet.fds)),
         sizes = std::vector<uint64_t>(batch.segment_sizes().begin(), batch.segment_sizes().end()),
         last = fetch->next_segment == batch.segment_count()] {
          absl::Status status = AppendAll(*mapping, *fds, sizes, last);
          fds->clear();
          return status;
        },
        [this, fetch](absl::Status status) { ContinueFetch(fetch, std::move(status)); });
  } else {
    ContinueFetch(fetch, std::move(fits));
  }
  // While a device works on this one, another may go on.
  AskNext();
  return absl::OkStatus();
}

void HandleSession::ContinueFetch(const std::shared_ptr<Fetch>& fetch, absl::Status status) {
  if (status.ok()) status = Alive();
  if (!status.ok() || fetch->mapping->complete()) {
    FinishFetch(fetch, std::move(status));
  } else {
    fetch->step = Fetch::Step::kReady;
    AskNext();
  }
}

void HandleSession::FinishFetch(const std::shared_ptr<Fetch>& fetch, absl::Status status) {
  fetches_.erase(fetch->lease->device());
  const uint64_t region_id = fetch->lease->region_id();
  std::vector<RegionTable::Taken> part;
  {
    const std::lock_guard lock(mutex_);
    if (status.ok()) {
      regions_.FinishFetch(region_id, fetch->share_serial, std::move(fetch->mapping));
    } else if (fetch->mapping != nullptr) {
      part.push_back(regions_.TakePart(region_id, fetch->share_serial, std::move(fetch->mapping)));
    } else {
      regions_.FailFetch(region_id);
    }
    fetch->done = true;
    fetch->status = std::move(status);
    fetched_.notify_all();
  }
  Unmap(std::move(part));
  StartFetches();
  AskNext();
}

void HandleSession::UnmapIdle() {
  std::unique_lock lock(mutex_);
  std::vector<RegionTable::Taken> taken = regions_.TakeAllIdle();
  lock.unlock();
  Unmap(std::move(taken));
}

void HandleSession::Unmap(std::vector<RegionTable::Taken> taken) {
  for (RegionTable::Taken& each : taken) {
    const std::string device = each.device;
    const std::shared_ptr<Mapping> mapping = each.mapping;
    Perform(
        device, mapping->waits(), [mapping] { return mapping->Unmap(); },
        [this, taken = std::move(each)](const absl::Status& status) { OnUnmapped(taken, status); });
  }
}

void HandleSession::UnmapAgain() {
  while (!unmap_again_.empty() && unmap_again_.front().first <= Now()) {
    const std::function<void()> unmap = std::move(unmap_again_.front().second);
    unmap_again_.pop_front();
    unmap();
  }
}

void HandleSession::Again(std::function<void()> unmap) {
  unmap_again_.emplace_back(Now() + kUnmapAgainAfter, std::move(unmap));
}

void HandleSession::OnUnmapped(RegionTable::Taken taken, const absl::Status& status) {
  if (absl::IsUnavailable(status)) {
    return Again([this, taken = std::move(taken)] { Unmap({taken}); });
  }
  if (status.ok() && taken.share_serial != 0) unmapped_.push_back(taken.share_serial);
  const std::lock_guard lock(mutex_);
  regions_.FinishUnmap(taken.region_id, status);
  if (lost_.load()) TellSurvivors();
  fetched_.notify_all();
}

void HandleSession::TellUnmapped() {
  while (!unmapped_.empty()) {
    v1::ClientPacket packet;
    while (!unmapped_.empty() &&
           static_cast<size_t>(packet.unmapped().share_serials_size()) < kSerialsPerPacket) {
      packet.mutable_unmapped()->add_share_serials(unmapped_.back());
      unmapped_.pop_back();
    }
    Queue(packet);
  }
}

void HandleSession::Perform(const std::string& device, bool waits,
                            std::function<absl::Status()> work,
                            std::function<void(absl::Status)> done) {
  if (!waits) {
    done(work());
    return;
  }
  ++jobs_under_way_;
  lanes_[device].jobs.Add(
      [mailbox = mailbox_, work = std::move(work), done = std::move(done)]() mutable {
        absl::Status status = work();
        // What it holds goes here, not in the session's thread.
        work = nullptr;
        mailbox->Post([done = std::move(done), status = std::move(status)] { done(status); });
      });
}

}  // namespace tenure::client
