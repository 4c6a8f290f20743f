// Random operations on a PoolTable, time being one of them, beside a model that knows which process
// has which Segment mapped, and says which Segments must have come back and which must not. A
// failure prints the seed and the last operations; TENURE_PROPERTY_SEED=N runs that seed alone and
// prints all of them as they happen.

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/core/runtime/pool_world.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using Shared = PoolTable::Shared;

#if defined(TENURE_SANITIZED) || !defined(NDEBUG)
constexpr int kSteps = 2'000;
#else
constexpr int kSteps = 54'000;
#endif

class PoolPropertyTest : public ::testing::TestWithParam<uint32_t>, protected PoolWorld {
 protected:
  PoolPropertyTest() : PoolWorld(GetParam()) {}

  Pool* Open(Client& client) {
    const Duration ttl = milliseconds(1'000 + Below(20'000));
    const StatusOr<Pool*> pool = table_.Open(client.session, ttl, now_);
    EXPECT_EQ(pool.ok(), client.open);
    if (!pool.ok()) return nullptr;
    if (client.live.valid()) {
      EXPECT_EQ((*pool)->id(), client.live);
    } else {
      EXPECT_TRUE(pools_seen_.insert((*pool)->id()).second);
      client.expires = now_ + ttl;
    }
    client.live = (*pool)->id();
    client.ttl = ttl;
    client.expires = std::max(client.expires, now_ + ttl);
    return *pool;
  }

  // Some come at once, some later. True if all have come.
  bool Bring(Pool& pool, const std::vector<Bytes>& missing) {
    bool all = true;
    for (const Bytes offset : missing) {
      if (idle_.size() == expected_.size()) return false;
      const PoolSegmentId id{pool.id(), offset};
      pool.Expect(offset);
      expected_.push_back({id, pool.session()});
      if (Chance(80)) {
        FillExpected(expected_.size() - 1);
      } else {
        all = false;
      }
    }
    return all;
  }

  void FillExpected(size_t i) {
    const auto [id, session] = expected_[i];
    expected_.erase(expected_.begin() + static_cast<ptrdiff_t>(i));
    Segment segment = std::move(idle_.back());
    idle_.pop_back();
    const size_t index = index_.at(segment.host_view().data());
    EXPECT_TRUE(placed_
                    .emplace(id, Placed{.segment = index,
                                        .session = session,
                                        .share = {},
                                        .closed = !IsLive(id.pool),
                                        .answer_by = {}})
                    .second);
    table_.Fill(id, std::move(segment), now_);
  }

  void Acquire() {
    Client& client = AnyClient();
    std::vector<BufferSpec> specs;
    for (uint64_t i = 0, count = 1 + Below(4); i < count; ++i) {
      specs.push_back({.size = Bytes(1 + Below(Below(4) == 0 ? 60'000 : 9'000)),
                       .alignment = Bytes(uint64_t{1} << Below(15)),
                       .kind = kAllBufferKinds[Below(3)]});
    }
    Log("acquire", client.session.value(), specs.size());
    Pool* const pool = Open(client);
    if (pool == nullptr) return;
    Pool::Placement placement = pool->Place(specs);
    if (!placement.placed() && Bring(*pool, placement.missing)) placement = pool->Place(specs);
    if (!placement.placed()) return;
    const std::vector<Buffer> buffers = *table_.AddBuffers(*pool, specs, placement.blocks, now_);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Range place = buffers[i].place;
      EXPECT_EQ(place.begin() % specs[i].alignment, Bytes(0));
      EXPECT_GE(place.size(), specs[i].size);
      for (const auto& [id, other] : client.buffers) {
        EXPECT_TRUE(place.end() <= other.place.begin() || other.place.end() <= place.begin());
      }
      for (Bytes at = AlignDown(place.begin(), kSegment); at < place.end(); at += kSegment) {
        const auto under = placed_.find({pool->id(), at});
        EXPECT_TRUE(under != placed_.end() && !under->second.closed && !under->second.granted);
      }
      EXPECT_TRUE(client.buffers.emplace(buffers[i].id, HeldBuffer{pool->id(), place}).second);
    }
  }

  void Grow() {
    Client& client = AnyClient();
    const BufferKind kind = kAllBufferKinds[Below(3)];
    const Bytes bytes(1 + Below(kSegment.count() * 3));
    Log("grow", client.session.value(), bytes.count());
    Pool* const pool = Open(client);
    if (pool == nullptr) return;
    Pool::Placement placement = pool->PlaceSegments(kind, bytes);
    if (!placement.placed() && Bring(*pool, placement.missing)) {
      placement = pool->PlaceSegments(kind, bytes);
    }
    if (!placement.placed()) return;
    for (const Bytes offset : pool->Grant(kind, placement.blocks[0])) {
      const PoolSegmentId id{pool->id(), offset};
      EXPECT_TRUE(Unused(client, id) && !placed_.at(id).closed);
      placed_.at(id).granted = true;
    }
  }

  // Offsets of Segments of the Pool, not all of which need be there.
  std::vector<Bytes> AnyOffsets(PoolId pool, bool only_granted) {
    std::vector<Bytes> offsets;
    for (const auto& [id, placed] : placed_) {
      if (id.pool == pool && (placed.granted || !only_granted) && Chance(50)) {
        offsets.push_back(id.offset);
      }
    }
    if (Chance(5)) offsets.push_back(kSegment * Below(24));
    return offsets;
  }

  void Shrink() {
    const Client& client = AnyClient();
    const std::vector<Bytes> offsets = AnyOffsets(client.live, Chance(90));
    Log("shrink", client.session.value(), offsets.size());
    bool all_granted = client.live.valid();
    for (const Bytes offset : offsets) {
      const auto found = placed_.find({client.live, offset});
      all_granted &= found != placed_.end() && found->second.granted &&
                     std::count(offsets.begin(), offsets.end(), offset) == 1;
    }
    const Instant answer_by = now_ + milliseconds(Below(500));
    EXPECT_EQ(table_.Shrink(client.session, client.live, offsets, answer_by, now_).ok(),
              all_granted);
    if (!all_granted) return;
    for (const Bytes offset : offsets) Close({client.live, offset}, answer_by);
  }

  void Close(PoolSegmentId id, Instant answer_by) {
    Placed& placed = placed_.at(id);
    placed.closed = true;
    placed.granted = false;
    if (placed.share.valid()) placed.answer_by = answer_by;
  }

  void ReleaseOne() {
    Client& client = AnyClient();
    if (client.buffers.empty()) return;
    const auto buffer = Any(client.buffers);
    const BufferId id = buffer->first;
    Log("release", client.session.value(), id.value());
    const Client& other = AnyClient();
    if (other.session != client.session) {
      EXPECT_TRUE(HasReason(table_.Release(other.session, id, now_), Reason::kLeaseNotFound));
    }
    EXPECT_TRUE(table_.Release(client.session, id, now_).ok());
    client.buffers.erase(buffer);
    client.lost.push_back(id);
  }

  void ReleaseLost() {
    Client& client = AnyClient();
    if (client.lost.empty()) return;
    const auto lost = Any(client.lost);
    Log("release what is gone", client.session.value(), lost->value());
    const Status first = table_.Release(client.session, *lost, now_);
    EXPECT_TRUE(HasReason(first, Reason::kLeaseExpired) ||
                HasReason(first, Reason::kLeaseNotFound));
    EXPECT_TRUE(HasReason(table_.Release(client.session, *lost, now_), Reason::kLeaseNotFound));
    client.lost.erase(lost);
  }

  void BeginExport() {
    const Client& client = AnyClient();
    const std::vector<Bytes> offsets = AnyOffsets(client.live, false);
    Log("begin export", client.session.value(), offsets.size());
    bool all = client.live.valid();
    for (const Bytes offset : offsets) {
      const auto found = placed_.find({client.live, offset});
      all &= found != placed_.end() && !found->second.closed;
    }
    const auto begun = table_.BeginExport(client.session, client.live, offsets);
    EXPECT_EQ(begun.ok(), all);
    if (!begun.ok()) return;
    for (const Shared& shared : *begun) {
      Placed& placed = placed_.at(shared.id);
      EXPECT_EQ(index_.at(shared.segment->host_view().data()), placed.segment);
      if (!placed.share.valid()) {
        EXPECT_TRUE(shares_seen_.insert(shared.share).second);
        placed.share = shared.share;
      }
      EXPECT_EQ(placed.share, shared.share);
      ++placed.exports;
      ++placed.sending;
      exports_.push_back({.shared = shared});
    }
  }

  void GoOnWithExport() {
    if (exports_.empty()) return;
    const auto exported = Any(exports_);
    const Shared& shared = exported->shared;
    const auto placed = placed_.find(shared.id);
    const bool shared_still = placed != placed_.end() && placed->second.share == shared.share;
    if (exported->exporting && Chance(50)) {
      Log("end export", shared.id.pool.value(), shared.id.offset.count(), shared.share.value());
      exported->exporting = false;
      --placed->second.exports;
      table_.EndExport(shared);
    } else if (exported->sending == Export::kBegun && Chance(70)) {
      Log("send", shared.id.pool.value(), shared.id.offset.count(), shared.share.value());
      const Status status = table_.MaySend(shared);
      EXPECT_EQ(HasReason(status, Reason::kLeaseExpired), !IsLive(shared.id.pool));
      EXPECT_EQ(status.ok(), IsLive(shared.id.pool) && shared_still);
      if (!status.ok()) return;
      exported->sending = Export::kSent;
      Owner(placed->second.session)->mapped.insert({shared.share, placed->second.segment});
    } else if (exported->sending != Export::kEnded) {
      const bool sent = exported->sending == Export::kSent;
      Log("end sending", shared.id.offset.count(), shared.share.value(), sent);
      exported->sending = Export::kEnded;
      if (shared_still) {
        --placed->second.sending;
        placed->second.sent |= sent;
        if (!placed->second.sent && placed->second.sending == 0) EndShare(shared.id);
      }
      table_.EndSending(shared, sent);
    }
    if (!exported->exporting && exported->sending == Export::kEnded) exports_.erase(exported);
  }

  void CloseShare() {
    if (placed_.empty()) return;
    const auto& [id, placed] = *Any(placed_);
    const ShareSerial share = placed.share;
    if (!share.valid()) return;
    Log("close share", id.pool.value(), id.offset.count(), share.value());
    Client& client = *Owner(placed.session);
    const Client& other = AnyClient();
    if (other.session != client.session) {
      EXPECT_FALSE(table_.CloseShare(other.session, share, now_));
    }
    std::erase_if(client.mapped, [&](const auto& mapping) { return mapping.first == share; });
    EndShare(id);
    if (placed.granted || Unused(client, id)) Close(id, now_);
    EXPECT_TRUE(table_.CloseShare(client.session, share, now_));
    EXPECT_FALSE(table_.CloseShare(client.session, share, now_));
  }

  void Recall() {
    const std::vector<PoolSegmentId> unused = table_.Unused();
    size_t expected = 0;
    for (const auto& [id, placed] : placed_) {
      if (placed.closed || placed.exports > 0 || placed.sending > 0) continue;
      expected += Unused(*Owner(placed.session), id);
    }
    EXPECT_EQ(unused.size(), expected);
    EXPECT_TRUE(std::is_partitioned(unused.begin(), unused.end(), [&](PoolSegmentId id) {
      return !placed_.at(id).share.valid();
    }));
    if (unused.empty()) return;
    const PoolSegmentId id = *Any(unused);
    Log("recall", id.pool.value(), id.offset.count());
    EXPECT_TRUE(Unused(*Owner(placed_.at(id).session), id));
    const Instant answer_by = now_ + milliseconds(Below(500));
    Close(id, answer_by);
    EXPECT_EQ(table_.Recall(id, answer_by, now_).value_or(ShareSerial()), placed_.at(id).share);
  }

  void Pass() {
    const Duration span = milliseconds(Below(Chance(20) ? 8'000 : 400));
    Log("pass", static_cast<uint64_t>(span / milliseconds(1)));
    now_ += span;
    size_t unanswered = 0;
    for (auto& [id, placed] : placed_) {
      if (!placed.answer_by.has_value() || *placed.answer_by > now_) continue;
      placed.answer_by.reset();
      placed.unanswered = true;
      ++unanswered;
    }
    EXPECT_EQ(table_.EndRecalls(now_), unanswered);
    std::set<PoolId> over;
    for (Client& client : clients_) {
      if (!client.live.valid() || client.expires > now_) continue;
      over.insert(client.live);
      EndLease(client);
    }
    std::set<PoolId> expired;
    for (const PoolTable::ExpiredPool& each : table_.Expire(now_)) expired.insert(each.pool);
    EXPECT_EQ(expired, over);
  }

  void HangUp() {
    Client& client = AnyClient();
    Log("close session", client.session.value());
    client.open = false;
    EndLease(client);
    table_.CloseSession(client.session, now_);
  }

  void Die() {
    Client& client = AnyClient();
    Log("end session", client.session.value());
    EndLease(client);
    for (auto& [id, placed] : placed_) {
      if (placed.session == client.session) EndShare(id);
    }
    table_.EndSession(client.session, now_);
    NewProcess(client);  // and nothing is mapped any more
  }

  void Renew() {
    Client& client = AnyClient();
    Log("renew", client.session.value());
    table_.Renew(client.session, now_);
    client.expires = std::max(client.expires, now_ + client.ttl);
  }

  void EndExpecting() {
    if (expected_.empty()) return;
    const size_t i = Below(expected_.size());
    const PoolSegmentId id = expected_[i].first;
    if (Chance(70)) {
      Log("fill", id.pool.value(), id.offset.count());
      FillExpected(i);
    } else {
      Log("abandon", id.pool.value(), id.offset.count());
      expected_.erase(expected_.begin() + static_cast<ptrdiff_t>(i));
      table_.Abandon(id);
    }
  }

  void Step() {
    using Operation = void (PoolPropertyTest::*)();
    static constexpr std::pair<uint64_t, Operation> kOperations[] = {
        {180, &PoolPropertyTest::Acquire},        {180, &PoolPropertyTest::ReleaseOne},
        {30, &PoolPropertyTest::ReleaseLost},     {50, &PoolPropertyTest::Grow},
        {50, &PoolPropertyTest::Shrink},          {70, &PoolPropertyTest::BeginExport},
        {200, &PoolPropertyTest::GoOnWithExport}, {80, &PoolPropertyTest::CloseShare},
        {50, &PoolPropertyTest::Recall},          {30, &PoolPropertyTest::Pass},
        {3, &PoolPropertyTest::HangUp},           {7, &PoolPropertyTest::Die},
        {40, &PoolPropertyTest::Renew},           {30, &PoolPropertyTest::EndExpecting},
    };
    uint64_t dice = Below(1'000);
    for (const auto& [weight, operation] : kOperations) {
      if (dice < weight) return (this->*operation)();
      dice -= weight;
    }
  }
};

TEST_P(PoolPropertyTest, MemoryComesBackOnProofAndNotBefore) {
  SCOPED_TRACE("TENURE_PROPERTY_SEED=" + std::to_string(GetParam()));
  for (; step_ < kSteps; ++step_) {
    Step();
    table_.Validate();
    TakeReturned();
    if (step_ % 16 == 0) CompareViews();
    if (HasFailure()) FAIL() << "after:\n" << LastOperations();
  }
  EXPECT_GT(returned_, static_cast<uint64_t>(kSteps) / 50);
  // Once all processes and exports have ended, everything has come back.
  for (Client& client : clients_) {
    table_.EndSession(client.session, now_);
    client = Client();
  }
  for (const Export& exported : exports_) {
    if (exported.exporting) table_.EndExport(exported.shared);
    if (exported.sending != Export::kEnded) table_.EndSending(exported.shared, false);
  }
  for (const auto& [id, session] : expected_) table_.Abandon(id);
  EXPECT_EQ(table_.TakeReturned().size(), placed_.size());
  EXPECT_TRUE(table_.Holdings().empty());
  table_.Validate();
}

INSTANTIATE_TEST_SUITE_P(Seeds, PoolPropertyTest, ::testing::ValuesIn(Seeds()));

}  // namespace
}  // namespace tenure
