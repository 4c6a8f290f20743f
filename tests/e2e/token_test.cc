// Words that are wrong, old, or another's.

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"
#include "tests/e2e/tenured.h"
#include "tests/e2e/wire_client.h"

namespace tenure {
namespace {

class TokenTest : public ::testing::Test {
 protected:
  TokenTest() {
    EXPECT_TRUE(client_.Load({.name = "a", .path = a_.path}).ok());
    lease_ = victim_.Acquire("a", "victims-request");
    share_ = victim_.Fetch(lease_, fds_);
  }

  // The victim still has what it had.
  void ExpectUnharmed() {
    EXPECT_EQ(victim_.Renew(lease_), "");
    EXPECT_TRUE(victim_.handle().IsServed());
  }

  const Tenured daemon_;
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(4)}, 1);
  const Client client_ = daemon_.Connect();
  WireClient victim_{daemon_.directory()};
  WireClient thief_{daemon_.directory()};
  uint64_t lease_ = 0;
  uint64_t share_ = 0;
  std::vector<UniqueFd> fds_;
};

TEST_F(TokenTest, AWrongTokenIsNobodys) {
  const std::string zeros(32, '0');
  for (const std::string& token : {std::string(), zeros, std::string("x"), std::string(4096, 'f'),
                                   victim_.token().substr(1), victim_.token() + "0"}) {
    EXPECT_EQ(thief_.RenewAs(thief_.boot_id(), token, lease_), "SESSION_UNKNOWN") << token;
  }
  EXPECT_EQ(thief_.RenewAs(zeros, victim_.token(), lease_), "STALE_INCARNATION");
  ExpectUnharmed();
}

// A token is a bearer's: whoever can read the victim's memory can read its models anyway.
TEST_F(TokenTest, AStolenTokenActsForItsSessionOnlyWhileThatLives) {
  const auto renew = [this] { return thief_.RenewAs(victim_.boot_id(), victim_.token(), lease_); };
  EXPECT_EQ(renew(), "");
  // What it cannot do is bring the memory to the thief's connection.
  thief_.handle().SayFetch(LeaseId(lease_), 0);
  const auto heard = thief_.handle().Hear();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->packet.share_refused().reason(), "LEASE_NOT_FOUND");
  EXPECT_TRUE(heard->fds.empty());

  victim_.handle().SayGoodbye();
  EXPECT_TRUE(Eventually([&] { return renew() == "SESSION_UNKNOWN"; }));
}

TEST_F(TokenTest, AnothersLeaseCannotBeRenewedReleasedOrFetched) {
  EXPECT_EQ(thief_.Renew(lease_), "LEASE_NOT_FOUND");
  EXPECT_EQ(thief_.Release(lease_), "LEASE_NOT_FOUND");
  thief_.handle().SayFetch(LeaseId(lease_), 0);
  const auto heard = thief_.handle().Hear();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->packet.share_refused().reason(), "LEASE_NOT_FOUND");
  EXPECT_TRUE(thief_.handle().IsServed());
  ExpectUnharmed();
}

TEST_F(TokenTest, AnothersRequestIdWithdrawsNothing) {
  v1::ReleaseLeaseRequest request;
  request.set_acquire_request_id("victims-request");
  EXPECT_EQ(thief_.Release(request), "");
  request.set_load_request_id("victims-request");
  EXPECT_EQ(thief_.Release(request), "");
  ExpectUnharmed();
}

TEST_F(TokenTest, AnothersShareCannotBeSaidUnmapped) {
  thief_.handle().SayUnmapped({share_});
  EXPECT_TRUE(thief_.handle().IsServed());
  const auto sessions = client_.Sessions();
  ASSERT_TRUE(sessions.ok()) << sessions.status();
  for (const client::Session& session : *sessions) {
    if (session.session_id == victim_.session_id()) {
      EXPECT_EQ(session.share_count, 1u);
    }
  }
  ExpectUnharmed();
}

}  // namespace
}  // namespace tenure
