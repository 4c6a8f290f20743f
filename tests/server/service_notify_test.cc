#include "server/service_notify.h"

#include <chrono>
#include <cstddef>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using std::chrono::seconds;

// The manager's end of the protocol.
class NotifySocket {
 public:
  // A path, or a name that begins with '@'.
  explicit NotifySocket(const std::string& name)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  }

  // The next message; empty if there is none.
  std::string Take() const {
    char buffer[1024];
    const ssize_t size = recv(socket_.get(), buffer, sizeof buffer, 0);
    return size > 0 ? std::string(buffer, static_cast<size_t>(size)) : "";
  }

 private:
  const UniqueFd socket_;
};

class ServiceNotifyTest : public ::testing::Test {
 protected:
  const TempDir temp_;
  const std::string path_ = temp_ / "notify";
  const NotifySocket manager_{path_};
};

TEST_F(ServiceNotifyTest, SaysHowTheServiceIs) {
  const ServiceNotify notify(path_, kForever);
  notify.Ready("serving");
  EXPECT_EQ(manager_.Take(), "READY=1\nSTATUS=serving");
  notify.Reloading(Instant(seconds(5)));
  EXPECT_EQ(manager_.Take(), "RELOADING=1\nMONOTONIC_USEC=5000000");
  notify.Status("two\nlines");
  EXPECT_EQ(manager_.Take(), "STATUS=two lines");
  notify.Stopping("draining");
  EXPECT_EQ(manager_.Take(), "STOPPING=1\nSTATUS=draining");
}

TEST_F(ServiceNotifyTest, GivesASignOfLifeAtHalfOfTheTime) {
  ServiceNotify notify(path_, seconds(10));
  notify.Alive(Instant(seconds(100)));
  EXPECT_EQ(manager_.Take(), "WATCHDOG=1");
  notify.Alive(Instant(seconds(104)));
  EXPECT_EQ(manager_.Take(), "");
  notify.Alive(Instant(seconds(105)));
  EXPECT_EQ(manager_.Take(), "WATCHDOG=1");
}

TEST_F(ServiceNotifyTest, GivesNoneWhereNobodyWatches) {
  ServiceNotify notify(path_, kForever);
  notify.Alive(Instant(seconds(100)));
  EXPECT_EQ(manager_.Take(), "");
}

TEST_F(ServiceNotifyTest, ReachesAnAbstractSocket) {
  const std::string name = "@tenure-test-" + std::to_string(getpid());
  const NotifySocket manager(name);
  ServiceNotify(name, kForever).Ready("serving");
  EXPECT_EQ(manager.Take(), "READY=1\nSTATUS=serving");
}

TEST_F(ServiceNotifyTest, TakesTheManagersVariablesOutOfTheEnvironment) {
  setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  setenv("WATCHDOG_USEC", "2000000", 1);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  ServiceNotify notify = ServiceNotify::FromEnvironment();
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
    EXPECT_EQ(getenv(name), nullptr) << name;
  }
  notify.Alive(Instant(seconds(1)));
  EXPECT_EQ(manager_.Take(), "WATCHDOG=1");
}

TEST_F(ServiceNotifyTest, AWatchdogOfAnotherProcessIsNotOurs) {
  setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  setenv("WATCHDOG_USEC", "2000000", 1);
  setenv("WATCHDOG_PID", "1", 1);
  ServiceNotify notify = ServiceNotify::FromEnvironment();
  notify.Alive(Instant(seconds(1)));
  EXPECT_EQ(manager_.Take(), "");
}

TEST_F(ServiceNotifyTest, SaysNothingWhereNobodyListens) {
  for (const std::string& name :
       {std::string(), std::string("relative"), temp_ / "gone", "/" + std::string(200, 'x')}) {
    ServiceNotify notify(name, seconds(10));
    notify.Ready("serving");
    notify.Alive(Instant(seconds(1)));
  }
  EXPECT_EQ(manager_.Take(), "");
}

}  // namespace
}  // namespace tenure
