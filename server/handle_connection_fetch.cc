#include <utility>
#include <vector>

#include "server/handle_connection.h"
#include "server/handle_packet.h"

namespace tenure {
namespace {

struct Batch {
  v1::DaemonPacket packet;
  std::vector<ShareSerial> shares;
  uint32_t next_segment = 0;
};

Batch BatchOf(const v1::FetchShare& fetch, const ShareExport& exported) {
  Batch batch;
  v1::ShareBatch& sent = *batch.packet.mutable_share_batch();
  sent.set_lease_id(fetch.lease_id());
  sent.set_share_serial(exported.share.serial.value());
  sent.set_region_id(exported.share.region.value());
  sent.set_first_segment(fetch.first_segment());
  sent.set_segment_count(exported.segment_count);
  for (const Bytes size : exported.sizes) sent.add_segment_sizes(size.count());
  batch.shares = {exported.share.serial};
  batch.next_segment = fetch.first_segment() + static_cast<uint32_t>(exported.fds.size());
  return batch;
}

Batch BatchOf(const v1::FetchPool& fetch, const PoolExport& exported) {
  Batch batch;
  v1::PoolBatch& sent = *batch.packet.mutable_pool_batch();
  sent.set_pool_id(fetch.pool_id());
  for (const PoolExport::Entry& entry : exported.segments) {
    v1::PoolSegment& segment = *sent.add_segments();
    segment.set_offset(entry.offset.count());
    segment.set_size(entry.size.count());
    segment.set_share_serial(entry.share.value());
    batch.shares.push_back(entry.share);
  }
  batch.next_segment = static_cast<uint32_t>(exported.fds.size());
  return batch;
}

const std::vector<UniqueFd>& FdsOf(const ExportedBatch& exported) {
  return std::visit([](const auto& batch) -> const std::vector<UniqueFd>& { return batch.fds; },
                    exported);
}

v1::DaemonPacket RefusalOf(const v1::FetchShare& fetch) {
  v1::DaemonPacket packet;
  packet.mutable_share_refused()->set_lease_id(fetch.lease_id());
  return packet;
}

v1::DaemonPacket RefusalOf(const v1::FetchPool& fetch) {
  v1::DaemonPacket packet;
  packet.mutable_pool_refused()->set_pool_id(fetch.pool_id());
  return packet;
}

}  // namespace

void HandleConnection::TakeFetch(Fetch fetch) {
  if (fetch_.has_value() || in_flight_.has_value()) {
    return Break("a fetch while the last batch is not acknowledged");
  }
  fetch_ = std::move(fetch);
  Flush();
}

void HandleConnection::TakeAck(const v1::ShareAck& ack) {
  if (!in_flight_.has_value() || in_flight_->shares.back().value() != ack.share_serial() ||
      in_flight_->next_segment != ack.next_segment()) {
    return Break("an acknowledgement that nobody waits for");
  }
  in_flight_.reset();
}

StatusOr<ExportId> HandleConnection::BeginExport(const v1::FetchShare& fetch) {
  return surroundings_.store.BeginExport(session_, LeaseId(fetch.lease_id()), fetch.first_segment(),
                                         static_cast<uint32_t>(kMaxPacketFds));
}

StatusOr<ExportId> HandleConnection::BeginExport(const v1::FetchPool& fetch) {
  if (fetch.offsets().empty() || fetch.offsets_size() > static_cast<int>(kMaxPacketFds)) {
    return Error(Reason::kInvalidRequest, "from 1 to 64 segments are fetched at a time");
  }
  std::vector<Bytes> offsets;
  for (const uint64_t offset : fetch.offsets()) offsets.emplace_back(offset);
  return surroundings_.store.BeginPoolExport(session_, PoolId(fetch.pool_id()), offsets);
}

void HandleConnection::BeginExport() {
  const StatusOr<ExportId> begun =
      std::visit([this](const auto& fetch) { return BeginExport(fetch); }, *fetch_);
  if (!begun.ok()) return RefuseFetch(begun.status());
  export_ = *begun;
}

void HandleConnection::Exported(ExportId id, const StatusOr<ExportedBatch>& batch) {
  if (id != export_) return;
  export_ = ExportId();
  if (!batch.ok()) return RefuseFetch(batch.status());
  const Status fresh = surroundings_.store.CheckExport(id);
  const bool sent = fresh.ok() && SendBatch(*batch);
  surroundings_.store.EndExport(id, sent);
  if (!fresh.ok()) RefuseFetch(fresh);
}

bool HandleConnection::SendBatch(const ExportedBatch& exported) {
  const Instant now = surroundings_.clock.Now();
  Batch batch = std::holds_alternative<ShareExport>(exported)
                    ? BatchOf(std::get<v1::FetchShare>(*fetch_), std::get<ShareExport>(exported))
                    : BatchOf(std::get<v1::FetchPool>(*fetch_), std::get<PoolExport>(exported));
  if (!outbound_.Flush(socket_.get(), now) ||
      !outbound_.SendNow(socket_.get(), batch.packet.SerializeAsString(), FdsOf(exported), now)) {
    return false;
  }
  in_flight_ = {.shares = std::move(batch.shares), .next_segment = batch.next_segment};
  fetch_.reset();
  return true;
}

void HandleConnection::RefuseFetch(const Status& why) {
  v1::DaemonPacket packet = std::visit([](const auto& fetch) { return RefusalOf(fetch); }, *fetch_);
  const auto say = [&](auto& refused) {
    refused.set_reason(DetailOf(why).value_or(ErrorDetail{}).reason);
    refused.set_message(std::string(why.message()));
  };
  if (packet.has_share_refused()) say(*packet.mutable_share_refused());
  if (packet.has_pool_refused()) say(*packet.mutable_pool_refused());
  // Without room for the answer, it is worked out anew once the client reads.
  if (!outbound_.Add(packet.SerializeAsString())) return;
  fetch_.reset();
  Flush();
}

void HandleConnection::ForgetFetch() {
  fetch_.reset();
  if (export_.valid()) surroundings_.store.EndExport(std::exchange(export_, ExportId()), false);
}

}  // namespace tenure
