// Many clients at once, while models come and go and leases run out.

#include <atomic>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/handle_fixture.h"

namespace tenure {
namespace {

class HandleStressTest : public HandleTest {
 protected:
  // One session from hello to its end. What comes unasked meanwhile is passed over.
  void LiveOnce(int round) {
    HandleClient client = Connect();
    client.Join();
    const StatusOr<GrantedLease> lease =
        store_->Acquire(client.session(), "m", "", std::chrono::milliseconds(20), "");
    if (lease.ok()) {
      client.SayFetch(lease->id, 0);
      while (std::optional<HandleClient::Heard> heard = client.Hear()) {
        if (heard->packet.has_share_refused()) break;
        if (!heard->packet.has_share_batch()) continue;
        const v1::ShareBatch& batch = heard->packet.share_batch();
        client.SayAck(batch.share_serial(), batch.segment_count());
        if (round % 2 == 0) (void)store_->Release(client.session(), lease->id);
        heard->fds.clear();
        client.SayUnmapped({batch.share_serial()});
        break;
      }
    }
    if (round % 5 != 0) client.SayGoodbye();
    if (round % 7 == 0) client.SayBytes("");
  }
};

TEST_F(HandleStressTest, ThreadsComeAndGoTogether) {
  options_.death_grace = std::chrono::milliseconds(1);
  Start();
  Load("m", 3);
  std::atomic<bool> over = false;
  std::thread ticker([&] {
    while (!over) {
      Pass(std::chrono::milliseconds(3));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::thread owner([&] {
    LoadRequest request;
    request.name = "m";
    request.path = "models/m.safetensors";
    request.retain_ttl = Duration::zero();
    while (!over) {
      (void)store_->Unload("m", {}, "");
      const StatusOr<LoadResult> loaded = store_->Load(request, {});
      EXPECT_TRUE(loaded.ok()) << loaded.status();
    }
  });
  std::vector<std::thread> clients;
  clients.reserve(4);
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([this] {
      for (int round = 0; round < 100; ++round) LiveOnce(round);
    });
  }
  for (std::thread& client : clients) client.join();
  over = true;
  owner.join();
  ticker.join();
  EXPECT_TRUE(Eventually([&] { return registry_.Sessions().empty(); }));
  store_->devices()[0]->WaitUntilQuiet();
  EXPECT_EQ(store_->devices()[0]->TakeSnapshot().live_leases, 0);
}

}  // namespace
}  // namespace tenure
