// Bytes on the gRPC socket that are no calls.

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <iostream>
#include <random>
#include <string.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <utility>
#include <vector>

#include "core/base/unique_fd.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"
#include "tests/e2e/storm.h"
#include "tests/e2e/tenured.h"
#include "tests/e2e/traces.h"

namespace tenure {
namespace {

constexpr int kAttackers = 200;

UniqueFd ConnectTo(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.Reset();
  return fd;
}

class GrpcMaliceTest : public ::testing::Test {
 protected:
  // What somebody says who never comes to a call.
  std::string RandomWords() {
    const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    std::string noise(1 + random_() % 5000, '\0');
    for (char& byte : noise) byte = static_cast<char>(random_());
    switch (random_() % 4) {
      case 0:
        return noise;
      case 1:
        return preface.substr(0, random_() % preface.size());
      case 2:
        return preface + noise;
      default:
        return preface + std::string("\0\0\0\4\0\0\0\0\0", 9) + noise;  // settings, then noise
    }
  }

  const uint64_t seed_ = FromEnvironment("TENURE_STORM_SEED", std::random_device()());
  std::mt19937_64 random_{seed_};
  const Tenured daemon_;
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(4)}, 1);
  const Client client_ = daemon_.Connect();
};

TEST_F(GrpcMaliceTest, GarbageAndHalfAPrefaceHurtNobodyAndLeaveNothing) {
  std::cout << "seed " << seed_ << std::endl;
  const WeightLease own = LoadAndLease(client_, "a", a_);
  const size_t fds = Traces::Of(daemon_).fds;
  std::vector<UniqueFd> attackers;
  for (int i = 0; i < kAttackers; ++i) {
    attackers.push_back(ConnectTo(daemon_.directory() + "/grpc.sock"));
    ASSERT_TRUE(attackers.back().valid());
    const std::string words = RandomWords();
    (void)!send(attackers.back().get(), words.data(), words.size(), MSG_NOSIGNAL);
    if (i % 20 != 0) continue;
    EXPECT_TRUE(client_.Acquire({.name = "a"}).ok());
    EXPECT_TRUE(client::CheckHealth(daemon_.directory(), std::chrono::seconds(10)).value_or(false));
  }
  attackers.clear();
  EXPECT_TRUE(Eventually([&] { return Traces::Of(daemon_).fds <= fds; }));
  EXPECT_TRUE(own.valid());
  EXPECT_EQ(Difference(own, a_), "");
}

}  // namespace
}  // namespace tenure
