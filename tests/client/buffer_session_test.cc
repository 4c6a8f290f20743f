// Single buffers of a session's pools, with a daemon that says what the test wants.

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "client/cpp/handle_session.h"
#include "tests/client/eventually.h"
#include "tests/client/handle_peer.h"
#include "tests/support/temp_dir.h"

namespace tenure::client {
namespace {

using std::chrono::seconds;

constexpr uint64_t kBytes = uint64_t{64} << 10;
constexpr uint64_t kPool = 7;

UniqueFd MakeMemory() {
  UniqueFd fd(memfd_create("segment", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(kBytes)), 0);
  return fd;
}

class Listener final : public PoolListener {
 public:
  void OnMemoryWanted(uint64_t) override {}
  void OnPoolLost(const std::string&) override {}
  void OnSweep(Instant) override {}
};

class BufferSessionTest : public ::testing::Test {
 protected:
  BufferSessionTest() {
    peer_.OfferPool(kBytes, MakeMemory);
    session_->SetGiveBack(
        [this](uint64_t, const std::vector<uint64_t>& offsets) { given_ += offsets.size(); });
  }

  absl::Status Map(uint64_t offset, uint64_t bytes) {
    const PoolSpec pool{.pool_id = kPool,
                        .device = {.name = "host:0"},
                        .range_bytes = 1024 * kBytes,
                        .segment_bytes = kBytes,
                        .ttl = seconds(60)};
    return session_->MapBuffer(pool, offset, bytes, Deadline(seconds(20))).status();
  }
  size_t CountOf(const std::string& start) {
    const std::vector<std::string> heard = peer_.Heard();
    return static_cast<size_t>(std::count_if(
        heard.begin(), heard.end(), [&](const auto& word) { return word.starts_with(start); }));
  }
  bool HeardEventually(const std::string& what, size_t times) {
    return Eventually([&] { return CountOf(what) == times; });
  }
  void SayLost() {
    v1::DaemonPacket lost;
    lost.mutable_pool_lost()->set_pool_id(kPool);
    lost.mutable_pool_lost()->set_reason("LEASE_EXPIRED");
    peer_.Say(lost);
  }

  TempDir temp_;
  HandlePeer peer_{temp_ / "handle.sock"};
  std::shared_ptr<Survivors> survivors_ = std::make_shared<Survivors>();
  std::unique_ptr<HandleSession> session_ =
      *HandleSession::Open(temp_ / "handle.sock", "test", "1", Deadline(seconds(20)), survivors_);
  size_t given_ = 0;
};

TEST_F(BufferSessionTest, OnlyWhatIsNotMappedYetIsFetched) {
  EXPECT_TRUE(Map(kBytes / 2, kBytes).ok());
  EXPECT_EQ(CountOf("fetch-pool"), 1u);
  EXPECT_TRUE(Map(0, 2 * kBytes).ok());
  EXPECT_EQ(CountOf("fetch-pool"), 1u);
  EXPECT_TRUE(Map(kBytes, 2 * kBytes).ok());
  EXPECT_EQ(CountOf("fetch-pool"), 2u);
}

TEST_F(BufferSessionTest, WhatIsStillMappedAtTheEndIsSaidToBeGone) {
  ASSERT_TRUE(Map(0, 3 * kBytes).ok());
  session_.reset();
  EXPECT_TRUE(HeardEventually("unmapped", 3));
  EXPECT_EQ(peer_.Heard().back(), "goodbye");
  EXPECT_EQ(survivors_->MakeReport().surviving.memories_size(), 0);
}

TEST_F(BufferSessionTest, ALostPoolStaysMappedUntilItIsLeft) {
  ASSERT_TRUE(Map(0, 2 * kBytes).ok());
  auto listener = std::make_shared<Listener>();
  ASSERT_TRUE(session_->Listen(kPool, listener));
  SayLost();
  EXPECT_TRUE(Eventually([&] { return !session_->Listen(kPool, listener); }));
  session_->LeavePool(kPool);
  EXPECT_EQ(CountOf("unmapped"), 0u);
  listener = nullptr;
  session_->LeavePool(kPool);
  EXPECT_TRUE(HeardEventually("unmapped", 2));
}

TEST_F(BufferSessionTest, APoolThatNobodyUsesIsUnmappedWhenItIsLost) {
  ASSERT_TRUE(Map(0, 2 * kBytes).ok());
  session_->LeavePool(kPool);
  EXPECT_EQ(CountOf("unmapped"), 0u);
  SayLost();
  EXPECT_TRUE(HeardEventually("unmapped", 2));
}

TEST_F(BufferSessionTest, ABufferThatCannotBeMappedLeavesNothingAndGivesNoSegmentBack) {
  peer_.EditPoolBatches([](v1::DaemonPacket&, std::vector<UniqueFd>& fds) {
    fds.pop_back();
    return true;
  });
  EXPECT_FALSE(Map(0, 3 * kBytes).ok());
  EXPECT_TRUE(HeardEventually("unmapped", 3));
  session_->SetGiveBack(nullptr);
  EXPECT_EQ(given_, 0u);
}

}  // namespace
}  // namespace tenure::client
