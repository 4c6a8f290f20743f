#include "client/cpp/handle_session.h"

#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "tests/client/handle_peer.h"
#include "tests/support/temp_dir.h"

namespace tenure::client {
namespace {

using std::chrono::seconds;

constexpr uint64_t kBytes = uint64_t{2} << 20;

UniqueFd Segment() {
  UniqueFd fd(memfd_create("segment", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), kBytes), 0);
  return fd;
}

TEST(HandleSessionTest, AnOldMappingIsToldBeforeItsRegionIsFetchedAgain) {
  const TempDir temp;
  const std::string path = temp / "handle.sock";
  HandlePeer peer(path);
  const std::unique_ptr<HandleSession> session =
      *HandleSession::Open(path, "test", "1", Deadline(seconds(10)), std::make_shared<Survivors>());
  peer.Offer(1, 10, {{Segment, kBytes}});
  const auto lease = std::make_shared<HeldLease>(1, LeasedDevice{.name = "host:0"}, 10, kBytes,
                                                 seconds(60), Now());
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(session->Hold(lease, Deadline(seconds(10))).ok());
    session->Drop(*lease);
    peer.RecallLast();
    // At the very moment that it is gone.
    while (session->mapped_region_count() > 0) continue;
  }
  bool mapped = false;
  for (const std::string& word : peer.Heard()) {
    if (word == "fetch 1 0") {
      EXPECT_FALSE(mapped) << "fetched while an old mapping was not told to be gone";
      mapped = true;
    } else if (word.starts_with("unmapped")) {
      mapped = false;
    }
  }
}

}  // namespace
}  // namespace tenure::client
