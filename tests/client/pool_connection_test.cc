// A connection that ends in its own session's thread.

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "client/cpp/connection.h"
#include "client/cpp/handle_session.h"
#include "tests/client/eventually.h"
#include "tests/client/handle_peer.h"
#include "tests/support/temp_dir.h"

namespace tenure::client {
namespace {

using std::chrono::seconds;

constexpr uint64_t kBytes = uint64_t{64} << 10;

UniqueFd MakeMemory() {
  UniqueFd fd(memfd_create("segment", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(kBytes)), 0);
  return fd;
}

// Drops a connection in the session's own thread, which cannot wait for itself to end.
class Dropper final : public PoolListener {
 public:
  explicit Dropper(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  void OnMemoryWanted(uint64_t) override {}
  void OnPoolLost(const std::string&) override {}
  void OnSweep(Instant) override {
    connection_ = nullptr;
    dropped = true;
  }

  std::atomic<bool> dropped = false;

 private:
  std::shared_ptr<Connection> connection_;
};

TEST(PoolConnectionTest, AConnectionWhoseLastOwnerIsItsOwnThreadSaysGoodbye) {
  const TempDir temp;
  HandlePeer peer(temp / "handle.sock");
  peer.OfferPool(kBytes, MakeMemory);
  const auto survivors = std::make_shared<Survivors>();
  std::shared_ptr<Connection> connection =
      *Connection::Open({.directory = temp.path()}, survivors, Deadline(seconds(10)));
  const PoolSpec pool{.pool_id = 7,
                      .device = {.name = "host:0"},
                      .range_bytes = kBytes,
                      .segment_bytes = kBytes,
                      .ttl = seconds(60)};
  ASSERT_TRUE(connection->session().MapSegments(pool, {0}, Deadline(seconds(20))).ok());
  const auto dropper = std::make_shared<Dropper>(connection);
  ASSERT_TRUE(connection->session().Listen(pool.pool_id, dropper));
  connection = nullptr;
  EXPECT_TRUE(Eventually([&] { return dropper->dropped.load(); }));
  EXPECT_TRUE(Eventually([&] {
    const auto heard = peer.Heard();
    return !heard.empty() && heard.back() == "goodbye";
  }));
  // Until its thread has ended it is the last one to have a look at the survivors.
  EXPECT_TRUE(Eventually([&] { return survivors.use_count() == 1; }));
}

}  // namespace
}  // namespace tenure::client
