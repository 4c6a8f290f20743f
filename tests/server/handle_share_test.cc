// Memory over the handle socket: fds, acknowledgements, recalls.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "tests/core/device/process_view.h"
#include "tests/server/handle_fixture.h"

namespace tenure {
namespace {

class HandleShareTest : public HandleTest {
 protected:
  static char FirstByte(const UniqueFd& fd) {
    char byte = -1;
    EXPECT_EQ(pread(fd.get(), &byte, 1, 0), 1);
    return byte;
  }
};

TEST_F(HandleShareTest, ARegionArrivesInOrderInBatchesOf64) {
  constexpr uint32_t kSegments = 130;
  Start(MiB(300));
  Load("m", kSegments);
  HandleClient client = Connect();
  client.Join();
  const LeaseId lease = Acquire(client.session(), "m");
  std::vector<UniqueFd> fds;
  uint64_t share = 0;
  for (const uint32_t expected : {64U, 64U, 2U}) {
    const auto first = static_cast<uint32_t>(fds.size());
    client.SayFetch(lease, first);
    std::optional<HandleClient::Heard> heard = client.Hear();
    ASSERT_TRUE(heard.has_value());
    const v1::ShareBatch& batch = heard->packet.share_batch();
    EXPECT_EQ(batch.lease_id(), lease.value());
    EXPECT_NE(batch.region_id(), 0);
    EXPECT_EQ(batch.first_segment(), first);
    EXPECT_EQ(batch.segment_count(), kSegments);
    EXPECT_EQ(heard->fds.size(), expected);
    EXPECT_THAT(batch.segment_sizes(), ::testing::SizeIs(static_cast<int>(expected)));
    EXPECT_THAT(batch.segment_sizes(), ::testing::Each(kSegment.count()));
    if (share != 0) {
      EXPECT_EQ(batch.share_serial(), share);
    }
    share = batch.share_serial();
    std::move(heard->fds.begin(), heard->fds.end(), std::back_inserter(fds));
    client.SayAck(share, static_cast<uint32_t>(fds.size()));
  }
  for (uint32_t i = 0; i < kSegments; ++i) EXPECT_EQ(FirstByte(fds[i]), static_cast<char>(i));
  EXPECT_TRUE(client.IsServed());
  client.SayFetch(lease, kSegments);
  EXPECT_EQ(client.Hear()->packet.share_refused().reason(), "INVALID_REQUEST");
}

// Field case 41.
TEST_F(HandleShareTest, WhatArrivesCanOnlyBeRead) {
  Start();
  Load("m", 1);
  HandleClient client = Connect();
  client.Join();
  std::vector<UniqueFd> fds;
  client.FetchAll(Acquire(client.session(), "m"), fds);
  ASSERT_EQ(fds.size(), 1);
  const int fd = fds[0].get();
  const size_t size = kSegment.count();
  void* const readable = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(readable, MAP_FAILED);
  munmap(readable, size);
  const UniqueFd again(open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
  for (const int writer : {fd, again.get()}) {
    EXPECT_EQ(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0), MAP_FAILED);
    EXPECT_LT(pwrite(writer, "x", 1, 0), 0);
    EXPECT_NE(ftruncate(writer, 0), 0);
    EXPECT_NE(fcntl(writer, F_ADD_SEALS, F_SEAL_WRITE), 0);
  }
}

TEST_F(HandleShareTest, AFetchForWhatIsNotYoursIsRefusedAndTheSessionGoesOn) {
  Start();
  Load("m", 1);
  HandleClient owner = Connect();
  owner.Join();
  HandleClient other = Connect();
  other.Join();
  const LeaseId lease = Acquire(owner.session(), "m");
  for (const LeaseId wrong : {lease, LeaseId(), LeaseId(12'345)}) {
    other.SayFetch(wrong, 0);
    const std::optional<HandleClient::Heard> heard = other.Hear();
    ASSERT_TRUE(heard.has_value());
    EXPECT_EQ(heard->packet.share_refused().lease_id(), wrong.value());
    EXPECT_EQ(heard->packet.share_refused().reason(), "LEASE_NOT_FOUND");
    EXPECT_TRUE(heard->fds.empty());
  }
  EXPECT_TRUE(other.IsServed());
  EXPECT_EQ(store_->UseBy(other.session()).shares, 0);
}

TEST_F(HandleShareTest, AFetchBeforeTheAcknowledgementBreaksTheProtocol) {
  Start();
  Load("m", 1);
  HandleClient client = Connect();
  client.Join();
  const LeaseId lease = Acquire(client.session(), "m");
  client.SayFetch(lease, 0);
  client.SayFetch(lease, 0);
  EXPECT_TRUE(Reaches(client.session(), SessionState::kDeaf));
}

TEST_F(HandleShareTest, AWrongAcknowledgementBreaksTheProtocol) {
  Start();
  Load("m", 2);
  for (const auto& [serial_offset, next] : {std::pair{1U, 2U}, std::pair{0U, 1U}}) {
    HandleClient client = Connect();
    client.Join();
    client.SayFetch(Acquire(client.session(), "m"), 0);
    const uint64_t share = client.Hear()->packet.share_batch().share_serial();
    client.SayAck(share + serial_offset, next);
    EXPECT_TRUE(Reaches(client.session(), SessionState::kDeaf));
  }
}

TEST_F(HandleShareTest, UnmappedBeforeTheAcknowledgementBreaksTheProtocolAndProvesNothing) {
  Start();
  Load("m", 1);
  HandleClient client = Connect();
  client.Join();
  client.SayFetch(Acquire(client.session(), "m"), 0);
  const uint64_t share = client.Hear()->packet.share_batch().share_serial();
  client.SayUnmapped({share});
  EXPECT_TRUE(Reaches(client.session(), SessionState::kDeaf));
  EXPECT_EQ(store_->UseBy(client.session()).shares, 1);
}

TEST_F(HandleShareTest, UnmappedEndsTheShareAndUnknownSerialsAreIgnored) {
  Start();
  Load("m", 1);
  HandleClient client = Connect();
  client.Join();
  std::vector<UniqueFd> fds;
  const LeaseId lease = Acquire(client.session(), "m");
  const uint64_t share = client.FetchAll(lease, fds);
  EXPECT_EQ(store_->UseBy(client.session()).shares, 1);
  client.SayUnmapped({0, share, share + 1});
  EXPECT_TRUE(client.IsServed());
  EXPECT_EQ(store_->UseBy(client.session()).shares, 0);
  EXPECT_EQ(server_.counters().unknown_shares, 2);
  EXPECT_TRUE(IsLive(client.session(), lease));
}

TEST_F(HandleShareTest, ARecallArrivesAndItsAnswerFreesTheMemory) {
  Start();
  Load("m", 3);
  HandleClient client = Connect();
  client.Join();
  std::vector<UniqueFd> fds;
  const LeaseId lease = Acquire(client.session(), "m");
  const uint64_t share = client.FetchAll(lease, fds);
  ASSERT_TRUE(store_->Release(client.session(), lease).ok());
  ASSERT_TRUE(store_->Unload("m", {}, "").ok());
  Pass(std::chrono::milliseconds(1));
  const std::optional<HandleClient::Heard> heard = client.Hear();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->packet.recall().share_serial(), share);
  EXPECT_EQ(heard->packet.recall().answer_within().nanos(), 200'000'000);
  EXPECT_EQ(LedgerNow().cached, Bytes(0));
  client.SayUnmapped({share});
  ASSERT_TRUE(client.IsServed());
  Pass(std::chrono::milliseconds(1));
  EXPECT_EQ(LedgerNow().cached, kSegment * 3);
}

TEST_F(HandleShareTest, ARecallWithoutAnswerEndsInQuarantine) {
  Start();
  Load("m", 1);
  HandleClient client = Connect();
  client.Join();
  std::vector<UniqueFd> fds;
  const LeaseId lease = Acquire(client.session(), "m");
  client.FetchAll(lease, fds);
  ASSERT_TRUE(store_->Release(client.session(), lease).ok());
  ASSERT_TRUE(store_->Unload("m", {}, "").ok());
  Pass(std::chrono::milliseconds(1));
  Pass(std::chrono::milliseconds(201));
  EXPECT_EQ(store_->UseBy(client.session()).quarantined_shares, 1);
  EXPECT_EQ(LedgerNow().cached, Bytes(0));
}

// Field case 17: 2,000 fetches of one region leave no fd behind.
TEST_F(HandleShareTest, SharingLeavesNoFdsInTheDaemon) {
  Start();
  Load("m", 4);
  HandleClient client = Connect();
  client.Join();
  const LeaseId lease = Acquire(client.session(), "m");
  const size_t before = OpenFds();
  for (int i = 0; i < 2000; ++i) {
    std::vector<UniqueFd> fds;
    const uint64_t share = client.FetchAll(lease, fds);
    ASSERT_EQ(fds.size(), 4);
    client.SayUnmapped({share});
  }
  EXPECT_TRUE(client.IsServed());
  EXPECT_LE(OpenFds(), before);
}

TEST_F(HandleShareTest, WhoeverDoesNotReadHoldsUpNobodyAndCostsNoFds) {
  Start();
  Load("m", 16);
  HandleClient lazy = Connect();
  lazy.Join();
  const LeaseId lazy_lease = Acquire(lazy.session(), "m");
  // The replies fill the socket, then the queue; the rest is dropped.
  for (int i = 0; i < 200'000 && server_.counters().packets_dropped == 0; ++i) lazy.SayHeartbeat(1);
  EXPECT_GT(server_.counters().packets_dropped, 0);
  const size_t before = OpenFds();
  lazy.SayFetch(lazy_lease, 0);
  HandleClient diligent = Connect();
  diligent.Join();
  std::vector<UniqueFd> fds;
  const uint64_t share = diligent.FetchAll(Acquire(diligent.session(), "m"), fds);
  EXPECT_EQ(fds.size(), 16);
  EXPECT_TRUE(diligent.IsServed());
  fds.clear();
  diligent.SayUnmapped({share});
  diligent.SayGoodbye();
  diligent.HangUp();
  EXPECT_TRUE(Ends(diligent.session()));
  EXPECT_TRUE(Eventually([&] { return OpenFds() <= before; }));
  EXPECT_TRUE(IsLive(lazy.session(), lazy_lease));

  // Once it reads, it gets the rest of what was queued, and then its memory.
  std::optional<HandleClient::Heard> heard;
  do {
    heard = lazy.Hear();
    ASSERT_TRUE(heard.has_value());
  } while (heard->packet.has_heartbeat_reply());
  EXPECT_EQ(heard->fds.size(), 16);
}

}  // namespace
}  // namespace tenure
