// Runtime memory of a client whose calls, threads or processes end at the wrong moment.

#include <chrono>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/support/daemon_process.h"
#include "tests/support/socket_relay.h"
#include "tests/support/test_backend.h"

namespace tenure {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSegment = 2 * kMiB;

class BufferClientTest : public ::testing::Test {
 protected:
  static Client Connect(const std::string& directory) {
    return *Client::Connect({.directory = directory, .program = "test"});
  }
  client::ArenaLedger Ledger() const { return observer_.Status()->devices.at(0).arenas.at(1); }
  bool LeasedBecomes(uint64_t bytes) const {
    return Eventually([&] { return Ledger().leased == bytes; });
  }

  DaemonProcess daemon_{DaemonSettings{.device = TestDeviceEntry("64MiB", "64MiB"),
                                       .more_yaml = "runtime: {segment_size: 2MiB}\n"}};
  const Client observer_ = Connect(daemon_.directory());
};

class LostGrowthTest : public BufferClientTest {
 protected:
  SocketRelay relay_{daemon_.directory()};
  const Client client_ = Connect(relay_.directory());
  const BufferPool pool_ = *client_.OpenPool();
};

TEST_F(LostGrowthTest, AGrowthGivenUpAfterItWasGrantedHoldsNothing) {
  relay_.HoldReplies();
  std::stop_source stop;
  auto status = std::async(std::launch::async, [&] {
    return pool_.Acquire(3 * kSegment, {}, {.cancel = stop.get_token()}).status();
  });
  EXPECT_TRUE(LeasedBecomes(3 * kSegment));
  stop.request_stop();
  EXPECT_EQ(status.get().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(LeasedBecomes(0));
  EXPECT_TRUE(pool_.valid());
}

TEST_F(LostGrowthTest, GivingBackIsRepeatedUntilTheDaemonIsReached) {
  relay_.HoldReplies();
  auto status =
      std::async(std::launch::async, [&] { return pool_.Acquire(3 * kSegment).status(); });
  EXPECT_TRUE(LeasedBecomes(3 * kSegment));
  relay_.Break();
  EXPECT_EQ(status.get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Ledger().leased, 3 * kSegment);
  relay_.Mend();
  EXPECT_TRUE(LeasedBecomes(0));
  const auto again = pool_.Acquire(3 * kSegment);
  EXPECT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Ledger().leased, 3 * kSegment);
}

// All or nothing: what was granted and could not be mapped is not kept.
TEST_F(BufferClientTest, MemoryForWhoseFdsThereIsNoRoomGoesBackToTheDaemon) {
  const Client client = Connect(daemon_.directory());
  const BufferPool pool = *client.OpenPool();
  const auto small = pool.Acquire(kMiB);
  ASSERT_TRUE(small.ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit tight = before;
  const int next = dup(0);
  close(next);
  tight.rlim_cur = static_cast<rlim_t>(next) + 4;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  const absl::Status refused = pool.Acquire(20 * kSegment).status();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_TRUE(LeasedBecomes(kSegment));
  EXPECT_EQ(pool.held_bytes(), kSegment);
  EXPECT_TRUE(pool.Acquire(20 * kSegment).ok());
}

// Ends with `check`, in a child, which is killed if it hangs.
int InAChild(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(BufferClientTest, AForkedChildHasNothingOfAPoolAndDisturbsNobody) {
  std::optional<Client> client = Connect(daemon_.directory());
  std::optional<BufferPool> pool = *client->OpenPool();
  std::optional<PoolBuffer> buffer = *pool->Acquire(kMiB);
  std::optional<BufferScope> scope = pool->OpenScope();
  ASSERT_TRUE(scope->Acquire(kMiB).ok());
  const auto forked = [](const absl::Status& status) { return ErrorReason(status) == "FORKED"; };
  EXPECT_EQ(InAChild([&] {
              bool right = forked(pool->Acquire(1).status()) && forked(client->OpenPool().status());
              right = right && !pool->valid() && !buffer->valid() && pool->Trim() == 0;
              right = right && forked(buffer->Release()) && forked(scope->Release());
              right = right && forked(pool->OpenScope().Acquire(1).status());
              right = right && forked(pool->Record().status()) && pool->held_bytes() == 0;
              buffer.reset();
              scope.reset();
              pool.reset();
              client.reset();
              return right;
            }),
            0);
  EXPECT_TRUE(buffer->valid());
  EXPECT_EQ(pool->held_bytes(), kSegment);
  EXPECT_EQ(Ledger().leased, kSegment);
  EXPECT_TRUE(pool->Acquire(kMiB).ok());
  EXPECT_TRUE(scope->Release().ok());
}

TEST_F(BufferClientTest, AChildOfAProcessWhoseThreadsAreAtWorkInAPoolDoesNotHang) {
  const Client client = Connect(daemon_.directory());
  std::optional<BufferPool> pool = *client.OpenPool();
  ASSERT_TRUE(pool->Acquire(kSegment).ok());
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) EXPECT_TRUE(pool->Acquire(1000).ok());
    });
  }
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(InAChild([&] {
                const bool right = ErrorReason(pool->Acquire(1).status()) == "FORKED";
                pool.reset();
                return right;
              }),
              0);
  }
}

// Whichever thread drops the last of a client.
TEST_F(BufferClientTest, ClientsThatEndWhileTheirPoolsAreSweptLeaveNothing) {
  for (int i = 0; i < 40; ++i) {
    std::optional<PoolBuffer> buffer;
    {
      const Client client = Connect(daemon_.directory());
      const BufferPool pool = *client.OpenPool({.idle_ttl = std::chrono::milliseconds(1)});
      buffer = *pool.Acquire(kMiB);
      if (i % 4 == 0) usleep(245'000);  // about when it is swept
    }
    buffer.reset();
  }
  EXPECT_TRUE(Eventually([&] { return observer_.Sessions()->size() == 1; }));
  EXPECT_TRUE(LeasedBecomes(0));
}

}  // namespace
}  // namespace tenure
