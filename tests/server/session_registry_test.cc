#include "server/session_registry.h"

#include <gmock/gmock.h>
#include <set>

#include "tests/server/handle_fixture.h"

namespace tenure {
namespace {

using ::testing::ElementsAre;

class SessionRegistryTest : public HandleTest {
 protected:
  void SetUp() override { Start(); }

  SessionRegistry::Opened Open() {
    StatusOr<SessionRegistry::Opened> opened =
        small_.Open(*store_, {.program = "p", .instance = "i", .uid = 1, .gid = 2, .pid = 3});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }

  SessionRegistry small_{clock_, 3};
};

TEST_F(SessionRegistryTest, TokenNamesItsSessionOnly) {
  const SessionRegistry::Opened a = Open();
  const SessionRegistry::Opened b = Open();
  EXPECT_EQ(a.token.size(), 32);
  EXPECT_EQ(a.token.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(a.token, b.token);
  EXPECT_EQ(small_.Authenticate(a.token), a.id);
  EXPECT_EQ(small_.Authenticate(b.token), b.id);
  EXPECT_EQ(small_.Authenticate(""), std::nullopt);
  EXPECT_EQ(small_.Authenticate(a.token.substr(1)), std::nullopt);
  EXPECT_EQ(small_.Authenticate(a.token + b.token), std::nullopt);
}

TEST_F(SessionRegistryTest, TokenOfASessionThatIsNotLiveIsWorthNothing) {
  const SessionRegistry::Opened deaf = Open();
  const SessionRegistry::Opened gone = Open();
  const SessionRegistry::Opened ended = Open();
  small_.Leave(deaf.id, SessionState::kDeaf);
  small_.Leave(gone.id, SessionState::kGone);
  small_.Remove(ended.id, false);
  for (const auto* opened : {&deaf, &gone, &ended}) {
    EXPECT_EQ(small_.Authenticate(opened->token), std::nullopt);
  }
  EXPECT_THAT(small_.CountByState(), ElementsAre(0, 1, 1));
}

TEST_F(SessionRegistryTest, ListsSessionsInOrderWithTheirSilence) {
  const SessionId a = Open().id;
  clock_.Advance(std::chrono::seconds(5));
  const SessionId b = Open().id;
  clock_.Advance(std::chrono::seconds(1));
  small_.Heard(a);
  clock_.Advance(std::chrono::seconds(1));
  const std::vector<SessionView> sessions = small_.Sessions();
  ASSERT_EQ(sessions.size(), 2);
  EXPECT_EQ(sessions[0].id, a);
  EXPECT_EQ(sessions[0].silent_for, std::chrono::seconds(1));
  EXPECT_EQ(sessions[0].identity.program, "p");
  EXPECT_EQ(sessions[0].identity.uid, 1);
  EXPECT_EQ(sessions[0].identity.gid, 2);
  EXPECT_EQ(sessions[0].identity.pid, 3);
  EXPECT_EQ(sessions[0].state, SessionState::kLive);
  EXPECT_EQ(sessions[1].id, b);
  EXPECT_EQ(sessions[1].silent_for, std::chrono::seconds(2));
}

TEST_F(SessionRegistryTest, RefusesMoreThanItMayHaveUntilOneEnds) {
  const SessionId first = Open().id;
  Open();
  Open();
  EXPECT_TRUE(HasReason(small_.Open(*store_, {}).status(), Reason::kLimit));
  small_.Leave(first, SessionState::kGone);
  EXPECT_TRUE(HasReason(small_.Open(*store_, {}).status(), Reason::kLimit));
  small_.Remove(first, false);
  EXPECT_TRUE(small_.Open(*store_, {}).ok());
}

TEST_F(SessionRegistryTest, CountsTheLostOnce) {
  const SessionId lost = Open().id;
  const SessionId polite = Open().id;
  small_.Remove(lost, true);
  small_.Remove(lost, true);
  small_.Remove(polite, false);
  EXPECT_EQ(small_.clients_lost(), 1);
  EXPECT_FALSE(small_.Find(lost).has_value());
}

TEST(RandomHexTest, NeverRepeats) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(RandomHex(16));
  EXPECT_EQ(seen.size(), 1000);
}

}  // namespace
}  // namespace tenure
