#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/pool_table.h"
#include "tests/support/small_device.h"

namespace tenure {

inline const char* ChosenSeed() { return std::getenv("TENURE_PROPERTY_SEED"); }

struct HeldBuffer {
  PoolId pool;
  Range place;
};

// A process. What it has mapped it has until it says so or ends.
struct Client {
  SessionId session;
  bool open = true;
  PoolId live;
  Duration ttl{};
  Instant expires;
  std::map<BufferId, HeldBuffer> buffers;
  std::vector<BufferId> lost;                       // released or expired
  std::set<std::pair<ShareSerial, size_t>> mapped;  // under which serial, which Segment
};

// What the table should know of a Segment in a Pool.
struct Placed {
  size_t segment;
  SessionId session;
  ShareSerial share;
  uint32_t exports = 0;
  uint32_t sending = 0;
  bool sent = false;
  bool granted = false;
  bool closed = false;
  bool unanswered = false;
  std::optional<Instant> answer_by;

  bool free() const { return closed && !share.valid() && exports == 0; }
};

struct Export {
  PoolTable::Shared shared;
  bool exporting = true;
  enum { kBegun, kSent, kEnded } sending = kBegun;
};

// A PoolTable, and beside it what should be so: which process has which Segment mapped, and which
// must have come back. Thread-compatible.
class PoolWorld {
 protected:
  static constexpr Bytes kSegment = KiB(16);
  static constexpr Bytes kKind = kSegment * 8;
  static constexpr size_t kSegments = 24;
  static constexpr size_t kClients = 8;

  explicit PoolWorld(uint32_t seed) : random_(seed) {
    for (size_t i = 0; i < kSegments; ++i) {
      idle_.push_back(*device_.CreateSegment(SegmentUse::kRuntime, kSegment));
      index_.emplace(idle_.back().host_view().data(), i);
    }
    for (Client& client : clients_) NewProcess(client);
  }

  uint64_t Below(uint64_t limit) { return random_() % limit; }
  bool Chance(uint64_t percent) { return Below(100) < percent; }
  template <typename Container>
  auto Any(Container& container) {
    return std::next(container.begin(), static_cast<ptrdiff_t>(Below(container.size())));
  }
  Client& AnyClient() { return clients_[Below(kClients)]; }
  Client* Owner(SessionId session) {
    const auto found = std::find_if(clients_.begin(), clients_.end(),
                                    [&](const Client& c) { return c.session == session; });
    return found == clients_.end() ? nullptr : &*found;
  }
  bool IsLive(PoolId pool) const {
    return std::any_of(clients_.begin(), clients_.end(),
                       [&](const Client& c) { return c.live == pool; });
  }

  void Log(const char* what, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0) {
    log_[step_ % log_.size()] = {.step = step_, .what = what, .a = a, .b = b, .c = c};
    if (ChosenSeed() != nullptr) Print(log_[step_ % log_.size()], std::cerr);
  }

  void NewProcess(Client& client) {
    client = Client();
    client.session = session_ids_.Next();
    table_.OpenSession(client.session);
  }

  // --- What the model does.

  void EndShare(PoolSegmentId id) {
    Placed& placed = placed_.at(id);
    placed.share = ShareSerial();
    placed.sending = 0;
    placed.sent = false;
    placed.answer_by.reset();
  }

  void EndLease(Client& client) {
    for (auto& [id, placed] : placed_) {
      if (id.pool == client.live) placed.closed = true;
    }
    for (auto buffer = client.buffers.begin(); buffer != client.buffers.end();) {
      client.lost.push_back(buffer->first);
      buffer = client.buffers.erase(buffer);
    }
    client.live = PoolId();
  }

  // No live Buffer lies in it.
  bool Unused(const Client& client, PoolSegmentId id) const {
    if (placed_.at(id).granted) return false;
    return std::none_of(client.buffers.begin(), client.buffers.end(), [&](const auto& entry) {
      const HeldBuffer& held = entry.second;
      return held.pool == id.pool && held.place.begin() < id.offset + kSegment &&
             id.offset < held.place.end();
    });
  }

  // --- What must be so after each.

  void TakeReturned() {
    for (Segment& segment : table_.TakeReturned()) {
      ++returned_;
      const size_t index = index_.at(segment.host_view().data());
      for (const Client& client : clients_) {
        for (const auto& [share, mapped] : client.mapped) {
          EXPECT_NE(mapped, index) << "session " << client.session.value() << " has it mapped";
        }
      }
      const auto from = std::find_if(placed_.begin(), placed_.end(), [&](const auto& placed) {
        return placed.second.segment == index;
      });
      ASSERT_NE(from, placed_.end()) << "returned twice";
      for (const Export& exported : exports_) {
        EXPECT_FALSE(exported.exporting && exported.shared.id == from->first);
      }
      EXPECT_TRUE(from->second.free());
      placed_.erase(from);
      idle_.push_back(std::move(segment));
    }
    for (const auto& [id, placed] : placed_) EXPECT_FALSE(placed.free()) << "not returned";
    EXPECT_EQ(idle_.size() + placed_.size(), kSegments);
  }

  void CompareViews() {
    Bytes segments;
    Bytes coming;
    Bytes unanswered;
    size_t live = 0;
    for (const PoolTable::Holding& holding : table_.Holdings()) {
      segments += holding.bytes.segments;
      coming += holding.bytes.coming;
      unanswered += holding.bytes.unanswered;
      live += holding.live;
      EXPECT_EQ(holding.live, IsLive(holding.pool));
      EXPECT_EQ(holding.buffers, holding.live ? Owner(holding.session)->buffers.size() : 0);
    }
    EXPECT_EQ(segments, kSegment * placed_.size());
    EXPECT_EQ(coming, kSegment * expected_.size());
    size_t recalled = 0;
    size_t asked_in_vain = 0;
    std::map<SessionId, size_t> quarantined;
    std::map<SessionId, size_t> shares;
    for (const auto& [id, placed] : placed_) {
      recalled += placed.answer_by.has_value();
      asked_in_vain += placed.unanswered;
      shares[placed.session] += placed.share.valid();
      quarantined[placed.session] +=
          placed.share.valid() && (placed.unanswered || !IsLive(id.pool));
    }
    EXPECT_EQ(table_.recalled(), kSegment * recalled);
    EXPECT_EQ(unanswered, kSegment * asked_in_vain);
    for (const Client& client : clients_) {
      live -= client.live.valid();
      const PoolTable::Use use = table_.UseBy(client.session);
      EXPECT_EQ(use.pools, client.live.valid() ? 1U : 0U);
      EXPECT_EQ(use.shares, shares[client.session]);
      EXPECT_EQ(use.quarantined_shares, quarantined[client.session]);
    }
    EXPECT_EQ(live, 0U);
  }

  struct Entry {
    uint64_t step;
    const char* what;
    uint64_t a, b, c;
  };
  static void Print(const Entry& entry, std::ostream& out) {
    out << entry.step << ": " << entry.what << " " << entry.a << " " << entry.b << " " << entry.c
        << "\n";
  }
  std::string LastOperations() const {
    std::ostringstream out;
    for (uint64_t i = 1; i <= log_.size(); ++i) {
      const Entry& entry = log_[(step_ + i) % log_.size()];
      if (entry.what != nullptr) Print(entry, out);
    }
    return out.str();
  }

  std::mt19937_64 random_;
  Instant now_ = Instant(std::chrono::hours(1));
  uint64_t step_ = 0;
  std::array<Entry, 64> log_{};

  SmallDevice device_{"host:0"};
  std::map<const std::byte*, size_t> index_;
  std::vector<Segment> idle_;
  std::map<PoolSegmentId, Placed> placed_;
  std::vector<std::pair<PoolSegmentId, SessionId>> expected_;
  std::array<Client, kClients> clients_;
  std::vector<Export> exports_;
  std::set<PoolId> pools_seen_;
  std::set<ShareSerial> shares_seen_;
  uint64_t returned_ = 0;

  IdSequence<SessionId> session_ids_;
  IdSequence<PoolId> pool_ids_;
  IdSequence<BufferId> buffer_ids_;
  IdSequence<ShareSerial> share_ids_;
  PoolTable table_{{.segment_size = kSegment, .kind_bytes = kKind},
                   {.pools = pool_ids_, .buffers = buffer_ids_, .shares = share_ids_}};
};

inline std::vector<uint32_t> Seeds() {
  if (ChosenSeed() != nullptr) return {static_cast<uint32_t>(std::atoi(ChosenSeed()))};
  std::vector<uint32_t> seeds;
  for (uint32_t seed = 1; seed <= 24; ++seed) seeds.push_back(seed);
  return seeds;
}

}  // namespace tenure
