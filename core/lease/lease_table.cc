#include "core/lease/lease_table.h"

#include <absl/strings/str_cat.h>

#include "core/base/check.h"

namespace tenure {
namespace {

Status LeaseNotFound(LeaseId lease) {
  return Error(Reason::kLeaseNotFound,
               absl::StrCat("this session has no such lease: ", lease.value()),
               {{"lease_id", absl::StrCat(lease.value())}});
}

Status LeaseExpired(const Lease& lease) {
  return Error(Reason::kLeaseExpired, absl::StrCat("the lease has expired: ", lease.id.value()),
               {{"lease_id", absl::StrCat(lease.id.value())},
                {"region_id", absl::StrCat(lease.region.value())},
                {"generation", absl::StrCat(lease.generation.value())}});
}

}  // namespace

LeaseTable::LeaseTable(IdSequence<LeaseId>& lease_ids, IdSequence<ShareSerial>& share_serials)
    : lease_ids_(lease_ids), share_serials_(share_serials) {}

void LeaseTable::OpenSession(SessionId session) {
  const bool inserted = sessions_.try_emplace(session).second;
  TENURE_CHECK(inserted);
}

LeaseTable::Hold* LeaseTable::FindHold(SessionId session, RegionId region) {
  const auto holds = holds_.find(region);
  if (holds == holds_.end()) return nullptr;
  const auto hold = holds->second.find(session);
  return hold == holds->second.end() ? nullptr : &hold->second;
}

const LeaseTable::Hold* LeaseTable::FindHold(SessionId session, RegionId region) const {
  return const_cast<LeaseTable*>(this)->FindHold(session, region);
}

bool LeaseTable::Quarantined(SessionId session, const Hold& hold) const {
  if (!hold.share.has_value()) return false;
  return !hold.expired.empty() || hold.share->recall_unanswered || !sessions_.at(session).open;
}

void LeaseTable::EraseLease(LeaseId id) {
  const auto found = leases_.find(id);
  const Lease lease = found->second.lease;
  Hold& hold = *FindHold(lease.session, lease.region);
  hold.live.erase(id);
  hold.expired.erase(id);
  expiry_.erase({lease.expires, id});
  leases_.erase(found);
  --sessions_.at(lease.session).leases;
}

void LeaseTable::ExpireLease(LeaseEntry& entry) {
  const Lease lease = entry.lease;
  Hold& hold = *FindHold(lease.session, lease.region);
  if (!hold.share.has_value()) {
    EraseLease(lease.id);
    EraseHoldIfEmpty(lease.session, lease.region);
    return;
  }
  entry.expired = true;
  expiry_.erase({lease.expires, lease.id});
  hold.live.erase(lease.id);
  hold.expired.insert(lease.id);
}

void LeaseTable::EraseShare(Hold& hold) {
  CancelRecall(*hold.share);
  shares_.erase(hold.share->serial);
  hold.share.reset();
  const std::set<LeaseId> expired = hold.expired;
  for (const LeaseId lease : expired) EraseLease(lease);
}

void LeaseTable::CancelRecall(Share& share) {
  if (!share.recalled_until.has_value()) return;
  recalls_.erase({*share.recalled_until, share.serial});
  share.recalled_until.reset();
}

void LeaseTable::EraseHoldIfEmpty(SessionId session, RegionId region) {
  const auto holds = holds_.find(region);
  const auto hold = holds->second.find(session);
  if (!hold->second.live.empty() || hold->second.share.has_value()) return;
  holds->second.erase(hold);
  if (holds->second.empty()) holds_.erase(holds);
  sessions_.at(session).regions.erase(region);
}

std::vector<RegionId> LeaseTable::CloseSession(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {};
  found->second.open = false;
  std::vector<RegionId> regions(found->second.regions.begin(), found->second.regions.end());
  for (const RegionId region : regions) {
    const std::set<LeaseId> live = FindHold(session, region)->live;
    for (const LeaseId lease : live) ExpireLease(leases_.at(lease));
  }
  return regions;
}

std::vector<RegionId> LeaseTable::EndSession(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {};
  std::vector<RegionId> regions(found->second.regions.begin(), found->second.regions.end());
  for (const RegionId region : regions) {
    Hold& hold = *FindHold(session, region);
    const std::set<LeaseId> live = hold.live;
    for (const LeaseId lease : live) EraseLease(lease);
    if (hold.share.has_value()) EraseShare(hold);
    EraseHoldIfEmpty(session, region);
  }
  sessions_.erase(found);
  return regions;
}

StatusOr<Lease> LeaseTable::Grant(SessionId session, RegionId region, Generation generation,
                                  Duration ttl, Instant now) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || !found->second.open) {
    return Error(Reason::kSessionUnknown, absl::StrCat("the session has ended: ", session.value()));
  }
  if (found->second.leases >= kMaxLeasesPerSession) {
    return Error(Reason::kLimit,
                 absl::StrCat("the session holds too many leases: ", found->second.leases));
  }
  const Lease lease{.id = lease_ids_.Next(),
                    .session = session,
                    .region = region,
                    .generation = generation,
                    .ttl = ttl,
                    .granted = now,
                    .expires = After(now, ttl)};
  leases_.emplace(lease.id, LeaseEntry{.lease = lease});
  expiry_.insert({lease.expires, lease.id});
  ++found->second.leases;
  found->second.regions.insert(region);
  Hold& hold = holds_[region][session];
  hold.live.insert(lease.id);
  // The Session is there and will say when it is done: an old recall has nothing to say any more.
  if (hold.share.has_value()) {
    CancelRecall(*hold.share);
    hold.share->recall_unanswered = false;
  }
  return lease;
}

Status LeaseTable::Release(SessionId session, LeaseId id, std::vector<RegionId>& touched) {
  const auto found = leases_.find(id);
  if (found == leases_.end() || found->second.lease.session != session) return LeaseNotFound(id);
  const Lease lease = found->second.lease;
  const bool expired = found->second.expired;
  EraseLease(id);
  EraseHoldIfEmpty(session, lease.region);
  touched.push_back(lease.region);
  return expired ? LeaseExpired(lease) : absl::OkStatus();
}

void LeaseTable::Renew(SessionId session, Instant now) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || !found->second.open) return;
  for (const RegionId region : found->second.regions) {
    for (const LeaseId id : FindHold(session, region)->live) {
      (void)RenewLease(session, id, now);
    }
  }
}

StatusOr<Lease> LeaseTable::RenewLease(SessionId session, LeaseId id, Instant now) {
  TENURE_RETURN_IF_ERROR(Find(session, id).status());
  Lease& lease = leases_.at(id).lease;
  expiry_.erase({lease.expires, id});
  lease.expires = std::max(lease.expires, After(now, lease.ttl));
  expiry_.insert({lease.expires, id});
  return lease;
}

StatusOr<Lease> LeaseTable::Find(SessionId session, LeaseId id) const {
  const auto found = leases_.find(id);
  if (found == leases_.end() || found->second.lease.session != session) return LeaseNotFound(id);
  if (found->second.expired) return LeaseExpired(found->second.lease);
  return found->second.lease;
}

RegionId LeaseTable::RegionOf(LeaseId lease) const {
  const auto found = leases_.find(lease);
  return found == leases_.end() ? RegionId() : found->second.lease.region;
}

std::vector<Lease> LeaseTable::Expire(Instant now) {
  std::vector<Lease> expired;
  while (!expiry_.empty() && expiry_.begin()->first <= now) {
    LeaseEntry& entry = leases_.at(expiry_.begin()->second);
    expired.push_back(entry.lease);
    ExpireLease(entry);
  }
  return expired;
}

StatusOr<Share> LeaseTable::OpenShare(SessionId session, LeaseId id) {
  TENURE_ASSIGN_OR_RETURN(const Lease lease, Find(session, id));
  Hold& hold = *FindHold(session, lease.region);
  if (!hold.share.has_value()) {
    hold.share = Share{.serial = share_serials_.Next(),
                       .session = session,
                       .region = lease.region,
                       .recalled_until = {}};
    shares_.emplace(hold.share->serial, std::pair(session, lease.region));
  }
  ++hold.share->exports;
  return *hold.share;
}

bool LeaseTable::EndExport(SessionId session, ShareSerial serial, bool sent) {
  const auto found = shares_.find(serial);
  if (found == shares_.end() || found->second.first != session) return false;
  Share& share = *FindHold(session, found->second.second)->share;
  --share.exports;
  share.sent = share.sent || sent;
  if (!share.sent && share.exports == 0) (void)CloseShare(session, serial);
  return true;
}

bool LeaseTable::HasShare(SessionId session, ShareSerial serial) const {
  const auto found = shares_.find(serial);
  return found != shares_.end() && found->second.first == session;
}

std::optional<RegionId> LeaseTable::CloseShare(SessionId session, ShareSerial serial) {
  const auto found = shares_.find(serial);
  if (found == shares_.end() || found->second.first != session) return std::nullopt;
  const RegionId region = found->second.second;
  EraseShare(*FindHold(session, region));
  EraseHoldIfEmpty(session, region);
  return region;
}

std::vector<Share> LeaseTable::Recall(RegionId region, Instant until) {
  std::vector<Share> recalled;
  const auto holds = holds_.find(region);
  if (holds == holds_.end()) return recalled;
  for (auto& [session, hold] : holds->second) {
    if (!hold.share.has_value() || hold.share->recalled_until.has_value()) continue;
    if (!hold.live.empty() || Quarantined(session, hold)) continue;
    hold.share->recalled_until = until;
    recalls_.insert({until, hold.share->serial});
    recalled.push_back(*hold.share);
  }
  return recalled;
}

void LeaseTable::CancelRecalls(RegionId region) {
  const auto holds = holds_.find(region);
  if (holds == holds_.end()) return;
  for (auto& [session, hold] : holds->second) {
    if (hold.share.has_value()) CancelRecall(*hold.share);
  }
}

std::vector<RegionId> LeaseTable::EndRecalls(Instant now) {
  std::vector<RegionId> regions;
  while (!recalls_.empty() && recalls_.begin()->first <= now) {
    const auto [session, region] = shares_.at(recalls_.begin()->second);
    recalls_.erase(recalls_.begin());
    Share& share = *FindHold(session, region)->share;
    share.recalled_until.reset();
    share.recall_unanswered = true;
    regions.push_back(region);
  }
  return regions;
}

RegionUse LeaseTable::UseOf(RegionId region) const {
  RegionUse use;
  for (const SessionUse& session : SessionsUsing(region)) {
    use.leases += session.leases;
    use.shares += session.shared ? 1U : 0U;
    use.quarantined_shares += session.quarantined ? 1U : 0U;
  }
  return use;
}

std::vector<SessionUse> LeaseTable::SessionsUsing(RegionId region) const {
  std::vector<SessionUse> uses;
  const auto holds = holds_.find(region);
  if (holds == holds_.end()) return uses;
  for (const auto& [session, hold] : holds->second) {
    uses.push_back(SessionUse{.session = session,
                              .leases = static_cast<uint32_t>(hold.live.size()),
                              .shared = hold.share.has_value(),
                              .quarantined = Quarantined(session, hold)});
  }
  return uses;
}

std::optional<Instant> LeaseTable::LastExpiry(RegionId region, SessionId session) const {
  std::optional<Instant> last;
  const Hold* const hold = FindHold(session, region);
  if (hold == nullptr) return last;
  for (const LeaseId id : hold->live) {
    const Instant expires = leases_.at(id).lease.expires;
    last = last.has_value() ? std::max(*last, expires) : expires;
  }
  return last;
}

RegionUse LeaseTable::UseBy(SessionId session) const {
  RegionUse use;
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return use;
  for (const RegionId region : found->second.regions) {
    const Hold& hold = *FindHold(session, region);
    use.leases += static_cast<uint32_t>(hold.live.size());
    use.shares += hold.share.has_value() ? 1U : 0U;
    use.quarantined_shares += Quarantined(session, hold) ? 1U : 0U;
  }
  return use;
}

std::vector<Lease> LeaseTable::LiveSince(Instant cutoff) const {
  std::vector<Lease> leases;
  for (const auto& [id, entry] : leases_) {
    if (!entry.expired && entry.lease.granted <= cutoff) leases.push_back(entry.lease);
  }
  std::sort(leases.begin(), leases.end(),
            [](const Lease& a, const Lease& b) { return a.id < b.id; });
  return leases;
}

void LeaseTable::Validate() const {
  size_t live = 0;
  size_t leases = 0;
  size_t shares = 0;
  for (const auto& [region, holds] : holds_) {
    TENURE_CHECK(!holds.empty());
    for (const auto& [session, hold] : holds) {
      TENURE_CHECK(sessions_.at(session).regions.contains(region));
      TENURE_CHECK(!hold.live.empty() || hold.share.has_value());
      TENURE_CHECK(hold.expired.empty() || hold.share.has_value());
      TENURE_CHECK(sessions_.at(session).open || hold.live.empty());
      live += hold.live.size();
      leases += hold.live.size() + hold.expired.size();
      for (const LeaseId id : hold.live) {
        TENURE_CHECK(expiry_.contains({leases_.at(id).lease.expires, id}));
      }
      if (!hold.share.has_value()) continue;
      ++shares;
      TENURE_CHECK(shares_.at(hold.share->serial) == std::pair(session, region));
    }
  }
  TENURE_CHECK(live == expiry_.size() && leases == leases_.size() && shares == shares_.size());
  size_t counted = 0;
  for (const auto& [session, entry] : sessions_) counted += entry.leases;
  TENURE_CHECK(counted == leases);
}

}  // namespace tenure
