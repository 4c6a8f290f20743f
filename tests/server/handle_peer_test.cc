#include "server/handle_peer.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <numeric>
#include <optional>
#include <poll.h>
#include <sched.h>
#include <unistd.h>
#include <vector>

#include "server/socket_listener.h"
#include "tests/server/handle_client.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

bool Readable(const UniqueFd& fd, int wait_ms) {
  pollfd state{.fd = fd.get(), .events = POLLIN, .revents = 0};
  return poll(&state, 1, wait_ms) == 1;
}

TEST(PeerTest, IsWhoConnected) {
  const TempDir directory;
  const std::string path = directory / "handle.sock";
  StatusOr<SocketListener> listener =
      SocketListener::Listen(SocketKind::kPackets, path, 0600, std::nullopt);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const HandleClient client(path);
  const SocketListener::Acceptance accepted = listener->Accept();
  const std::optional<HandlePeer> peer = IdentifyPeer(accepted.socket.get());
  ASSERT_TRUE(peer.has_value());
  EXPECT_EQ(peer->uid, geteuid());
  EXPECT_EQ(peer->gid, getegid());
  EXPECT_EQ(peer->pid, getpid());
  ASSERT_TRUE(peer->pidfd.valid());
  EXPECT_FALSE(Readable(peer->pidfd, 0));
}

TEST(PeerTest, HasItsSupplementaryGroups) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can change its groups";
  const TempDir directory;
  const std::string path = directory / "handle.sock";
  StatusOr<SocketListener> listener =
      SocketListener::Listen(SocketKind::kPackets, path, 0600, std::nullopt);
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::vector<gid_t> groups(100);  // more than are asked for at first
  std::iota(groups.begin(), groups.end(), gid_t{1000});
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(groups.size(), groups.data()) != 0) _exit(1);
    const HandleClient client(path);
    while (true) pause();
  }
  SocketListener::Acceptance accepted{.outcome = SocketListener::Outcome::kNobody, .socket = {}};
  EXPECT_TRUE(Eventually([&] {
    accepted = listener->Accept();
    return accepted.socket.valid();
  }));
  const std::optional<HandlePeer> peer = IdentifyPeer(accepted.socket.get());
  EXPECT_TRUE(peer.has_value() && peer->groups == groups);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(PeerTest, ThePidfdTellsTheEndOfTheProcess) {
  const TempDir directory;
  const std::string path = directory / "handle.sock";
  StatusOr<SocketListener> listener =
      SocketListener::Listen(SocketKind::kPackets, path, 0600, std::nullopt);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const pid_t child = fork();
  if (child == 0) {
    const HandleClient client(path);
    while (true) pause();
  }
  SocketListener::Acceptance accepted{.outcome = SocketListener::Outcome::kNobody, .socket = {}};
  ASSERT_TRUE(Eventually([&] {
    accepted = listener->Accept();
    return accepted.socket.valid();
  }));
  const std::optional<HandlePeer> peer = IdentifyPeer(accepted.socket.get());
  ASSERT_TRUE(peer.has_value());
  EXPECT_EQ(peer->pid, child);
  EXPECT_FALSE(Readable(peer->pidfd, 0));
  kill(child, SIGKILL);
  EXPECT_TRUE(Readable(peer->pidfd, kPatienceMs));
  waitpid(child, nullptr, 0);
}

// Field case 45: the daemon in a pid namespace of its own cannot see the client's pid, and needs no
// pid.
TEST(PeerTest, AClientOutsideOurPidNamespaceHasNoPidAndIsWatchedAllTheSame) {
  constexpr int kCannotUnshare = 77;
  const TempDir directory;
  const std::string path = directory / "handle.sock";
  int identified[2] = {};
  ASSERT_EQ(pipe(identified), 0);
  const pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
      _exit(kCannotUnshare);
    }
    const pid_t inner = fork();  // the first process in the namespace
    if (inner == 0) {
      StatusOr<SocketListener> listener =
          SocketListener::Listen(SocketKind::kPackets, path, 0600, std::nullopt);
      SocketListener::Acceptance accepted{.outcome = SocketListener::Outcome::kNobody,
                                          .socket = {}};
      if (!listener.ok() || !Eventually([&] {
            accepted = listener->Accept();
            return accepted.socket.valid();
          })) {
        _exit(1);
      }
      const std::optional<HandlePeer> peer = IdentifyPeer(accepted.socket.get());
      if (!peer.has_value() || peer->pid != 0 || !peer->pidfd.valid()) _exit(2);
      if (Readable(peer->pidfd, 0)) _exit(3);
      if (write(identified[1], "x", 1) != 1) _exit(4);
      _exit(Readable(peer->pidfd, kPatienceMs) ? 0 : 5);
    }
    int status = 0;
    waitpid(inner, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 6);
  }
  close(identified[1]);
  const pid_t client = fork();
  if (client == 0) {
    std::optional<HandleClient> connection;
    while (!connection.has_value()) {
      try {
        connection.emplace(path);
      } catch (const std::exception&) {
        usleep(1000);
      }
    }
    while (true) pause();
  }
  char byte = 0;
  const bool seen = read(identified[0], &byte, 1) == 1;  // ends, too, if nobody is there to write
  close(identified[0]);
  kill(client, SIGKILL);
  waitpid(client, nullptr, 0);
  int status = 0;
  waitpid(outer, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannotUnshare) GTEST_SKIP() << "no pid namespace can be made here";
  EXPECT_TRUE(seen);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tenure
