// Grants whose reply never reaches the client: they must not outlive the call.

#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <string>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/client/model_files.h"
#include "tests/support/daemon_process.h"
#include "tests/support/socket_relay.h"

namespace tenure {
namespace {

class LostReplyTest : public ::testing::Test {
 protected:
  LostReplyTest() : file_(WriteModel(daemon_, "a", 8)) {
    EXPECT_TRUE(observer_.Load({.name = "a", .path = file_.path}).ok());
    EXPECT_TRUE(client_.List().ok());  // connects, before replies are held
  }

  Client Connect(const std::string& directory) {
    return *Client::Connect({.directory = directory, .program = "test"});
  }
  absl::Status Acquire(const std::stop_token& cancel) const {
    return client_.Acquire({.name = "a"}, {.cancel = cancel}).status();
  }
  absl::Status Load(const std::stop_token& cancel) const {
    return client_.Load({.name = "a", .path = file_.path, .acquire = true}, {.cancel = cancel})
        .status();
  }
  bool BecomesHeld() {
    return Eventually([&] { return !observer_.Get("a")->holders.empty(); });
  }
  bool BecomesFree() {
    return Eventually([&] { return observer_.Get("a")->holders.empty(); });
  }

  // Makes `call`, and gives it up once the daemon has granted what it asks for.
  void GiveUpOnceGranted(const std::function<absl::Status(std::stop_token)>& call) {
    relay_.HoldReplies();
    std::stop_source stop;
    std::future<absl::Status> status = std::async(std::launch::async, call, stop.get_token());
    EXPECT_TRUE(BecomesHeld());
    stop.request_stop();
    EXPECT_EQ(status.get().code(), absl::StatusCode::kCancelled);
  }

  // A client that never gives back what it does not know of would hold it as long as its session
  // lives: heartbeats renew every lease.
  DaemonProcess daemon_{DaemonSettings{}};
  const ModelFile file_;
  SocketRelay relay_{daemon_.directory()};
  const Client observer_ = Connect(daemon_.directory());
  const Client client_ = Connect(relay_.directory());
};

TEST_F(LostReplyTest, AnAcquireGivenUpAfterItWasGrantedHoldsNothing) {
  GiveUpOnceGranted([this](const std::stop_token& cancel) { return Acquire(cancel); });
  EXPECT_TRUE(BecomesFree());
}

TEST_F(LostReplyTest, ALoadGivenUpAfterItWasGrantedHoldsNothing) {
  GiveUpOnceGranted([this](const std::stop_token& cancel) { return Load(cancel); });
  EXPECT_TRUE(BecomesFree());
}

TEST_F(LostReplyTest, GivingBackIsRepeatedUntilTheDaemonIsReached) {
  relay_.HoldReplies();
  std::future<absl::Status> status =
      std::async(std::launch::async, [this] { return Acquire(std::stop_token()); });
  EXPECT_TRUE(BecomesHeld());
  relay_.Break();
  EXPECT_EQ(status.get().code(), absl::StatusCode::kUnavailable);
  // Fails as long as the relay is broken, as the first attempt to give back did.
  EXPECT_FALSE(client_.List({.timeout = std::chrono::milliseconds(200)}).ok());
  EXPECT_FALSE(observer_.Get("a")->holders.empty());
  relay_.Mend();
  EXPECT_TRUE(BecomesFree());
}

}  // namespace
}  // namespace tenure
