#pragma once

#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/status.h"

namespace tenure {

// A time-bounded right of a Session to read a Region. It lives at least for its TTL after it was
// granted or last renewed.
struct Lease {
  LeaseId id;
  SessionId session;
  RegionId region;
  Generation generation;  // of the Region, when it was granted
  Duration ttl{};
  Instant granted;
  Instant expires;
};

// A Region that a Session has mapped, from the moment its fds may be sent until the Session says
// that it unmapped it or its process has ended. It is idle while the Session has no lease on the
// Region, and quarantined if the Session may still be reading without one: a lease expired
// unreleased, a recall went unanswered, or the Session is closed.
struct Share {
  ShareSerial serial;
  SessionId session;
  RegionId region;
  std::optional<Instant> recalled_until;
  bool recall_unanswered = false;
  uint32_t exports = 0;  // begun and not ended
  bool sent = false;     // fds of one that ended may have reached the Session
};

// How the Sessions use one Region.
struct RegionUse {
  uint32_t leases = 0;
  uint32_t shares = 0;
  uint32_t quarantined_shares = 0;
  friend bool operator==(const RegionUse&, const RegionUse&) = default;
};

// How one Session uses one Region.
struct SessionUse {
  SessionId session;
  uint32_t leases = 0;
  bool shared = false;
  bool quarantined = false;
};

// The Sessions, Leases and Shares of one Device. A Session is open (may be granted leases), closed
// (may not, its process may live), or unknown; ids of ended Sessions never come back.
//
// Functions that change how Regions are used return the Regions concerned. Thread-compatible.
class LeaseTable {
 public:
  // Most leases that one Session may hold, live or expired and not answered for.
  static constexpr size_t kMaxLeasesPerSession = 10'000;

  // Lease ids and share serials come from these sequences, so that several tables never issue the
  // same.
  LeaseTable(IdSequence<LeaseId>& lease_ids, IdSequence<ShareSerial>& share_serials);

  void OpenSession(SessionId session);
  // Grants nothing to the Session any more. Its live leases expire.
  std::vector<RegionId> CloseSession(SessionId session);
  // The Session's process has ended: it holds nothing and reads nothing any more.
  std::vector<RegionId> EndSession(SessionId session);

  // SESSION_UNKNOWN if the Session is not open, LIMIT if it holds too many.
  StatusOr<Lease> Grant(SessionId session, RegionId region, Generation generation, Duration ttl,
                        Instant now);

  // The Session's word that it does not read under this lease any more. Releases a live lease. An
  // expired one is answered for by this, and LEASE_EXPIRED says that it was; its Region is in
  // `touched` then too.
  Status Release(SessionId session, LeaseId id, std::vector<RegionId>& touched);

  // Renews every live lease of the Session.
  void Renew(SessionId session, Instant now);
  // Renews one. LEASE_EXPIRED, LEASE_NOT_FOUND.
  StatusOr<Lease> RenewLease(SessionId session, LeaseId id, Instant now);

  // A live lease of the Session. LEASE_EXPIRED, LEASE_NOT_FOUND.
  StatusOr<Lease> Find(SessionId session, LeaseId id) const;
  // The Region of a lease, also of an expired one; not valid if there is none.
  RegionId RegionOf(LeaseId lease) const;

  // Expires every lease whose time is over and returns them. One without a Share is released by
  // that; one with a Share is kept until it is answered for.
  std::vector<Lease> Expire(Instant now);

  // Begins an export under the Share through which the lease's Session has the Region mapped: the
  // one it has, or a new one. Errors as in Find.
  StatusOr<Share> OpenShare(SessionId session, LeaseId id);
  // Ends an export; `sent`: the Session may have got its fds. A Share of which nothing was sent
  // ends with the last of its exports. False if the Share had ended before.
  bool EndExport(SessionId session, ShareSerial serial, bool sent);
  // True from OpenShare until the Share has ended.
  bool HasShare(SessionId session, ShareSerial serial) const;
  // The Session's word that nothing is mapped under this serial. The Region, or nullopt if the
  // Session has no such Share. Answers for expired leases on that Region; a live lease goes on
  // without a Share.
  std::optional<RegionId> CloseShare(SessionId session, ShareSerial serial);

  // Marks the idle Shares of the Region that are not being recalled yet, and returns them.
  std::vector<Share> Recall(RegionId region, Instant until);
  // The Region is wanted as it is after all: its recalls need no answer any more.
  void CancelRecalls(RegionId region);
  // Ends recalls whose time is over: what was not answered is in quarantine.
  std::vector<RegionId> EndRecalls(Instant now);

  RegionUse UseOf(RegionId region) const;
  std::vector<SessionUse> SessionsUsing(RegionId region) const;
  // When the last of the Session's live leases on the Region expires, unless they are renewed;
  // nullopt if there is none.
  std::optional<Instant> LastExpiry(RegionId region, SessionId session) const;
  // Live leases, Shares, quarantined Shares of one Session.
  RegionUse UseBy(SessionId session) const;
  size_t live_leases() const { return expiry_.size(); }
  // The live leases that were granted at `cutoff` or before, by id.
  std::vector<Lease> LiveSince(Instant cutoff) const;

  // CHECKs that the indices agree.
  void Validate() const;

 private:
  struct Hold {
    std::set<LeaseId> live;
    std::set<LeaseId> expired;  // and not answered for; only with a share
    std::optional<Share> share;
  };
  struct SessionEntry {
    bool open = true;
    size_t leases = 0;  // live and expired
    std::set<RegionId> regions;
  };
  struct LeaseEntry {
    Lease lease;
    bool expired = false;
  };
  using Holds = std::map<SessionId, Hold>;

  Hold* FindHold(SessionId session, RegionId region);
  const Hold* FindHold(SessionId session, RegionId region) const;
  bool Quarantined(SessionId session, const Hold& hold) const;
  void EraseLease(LeaseId id);
  void ExpireLease(LeaseEntry& entry);
  void EraseShare(Hold& hold);
  void CancelRecall(Share& share);
  void EraseHoldIfEmpty(SessionId session, RegionId region);

  IdSequence<LeaseId>& lease_ids_;
  IdSequence<ShareSerial>& share_serials_;
  std::unordered_map<SessionId, SessionEntry> sessions_;
  std::unordered_map<RegionId, Holds> holds_;
  std::unordered_map<LeaseId, LeaseEntry> leases_;
  std::set<std::pair<Instant, LeaseId>> expiry_;  // live leases only
  std::unordered_map<ShareSerial, std::pair<SessionId, RegionId>> shares_;
  std::set<std::pair<Instant, ShareSerial>> recalls_;
};

}  // namespace tenure
