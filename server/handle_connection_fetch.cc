#include <utility>

#include "server/handle_connection.h"
#include "server/handle_packet.h"

namespace tenure {

void HandleConnection::TakeFetch(const v1::FetchShare& fetch) {
  if (fetch_.has_value() || in_flight_.has_value()) {
    return Break("a fetch while the last batch is not acknowledged");
  }
  fetch_ = fetch;
  Flush();
}

void HandleConnection::TakeAck(const v1::ShareAck& ack) {
  if (!in_flight_.has_value() || in_flight_->share.value() != ack.share_serial() ||
      in_flight_->next_segment != ack.next_segment()) {
    return Break("an acknowledgement that nobody waits for");
  }
  in_flight_.reset();
}

void HandleConnection::BeginExport() {
  const StatusOr<ExportId> begun = surroundings_.store.BeginExport(
      session_, LeaseId(fetch_->lease_id()), fetch_->first_segment(),
      static_cast<uint32_t>(kMaxPacketFds));
  if (!begun.ok()) return RefuseFetch(begun.status());
  export_ = *begun;
}

void HandleConnection::Exported(ExportId id, const StatusOr<ShareExport>& batch) {
  if (id != export_) return;
  export_ = ExportId();
  if (!batch.ok()) return RefuseFetch(batch.status());
  const Status fresh = surroundings_.store.CheckExport(id);
  const bool sent = fresh.ok() && SendBatch(*batch);
  surroundings_.store.EndExport(id, sent);
  if (!fresh.ok()) RefuseFetch(fresh);
}

bool HandleConnection::SendBatch(const ShareExport& exported) {
  const Instant now = surroundings_.clock.Now();
  v1::DaemonPacket packet;
  v1::ShareBatch& batch = *packet.mutable_share_batch();
  batch.set_lease_id(fetch_->lease_id());
  batch.set_share_serial(exported.share.serial.value());
  batch.set_region_id(exported.share.region.value());
  batch.set_first_segment(fetch_->first_segment());
  batch.set_segment_count(exported.segment_count);
  for (const Bytes size : exported.sizes) batch.add_segment_sizes(size.count());
  if (!outbound_.Flush(socket_.get(), now) ||
      !outbound_.SendNow(socket_.get(), packet.SerializeAsString(), exported.fds, now)) {
    return false;
  }
  in_flight_ = {
      .share = exported.share.serial,
      .next_segment = fetch_->first_segment() + static_cast<uint32_t>(exported.fds.size())};
  fetch_.reset();
  return true;
}

void HandleConnection::RefuseFetch(const Status& why) {
  v1::DaemonPacket packet;
  v1::ShareRefused& refused = *packet.mutable_share_refused();
  refused.set_lease_id(fetch_->lease_id());
  refused.set_reason(DetailOf(why).value_or(ErrorDetail{}).reason);
  refused.set_message(std::string(why.message()));
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
