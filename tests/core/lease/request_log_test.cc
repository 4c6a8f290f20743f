#include "core/lease/request_log.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

namespace tenure {
namespace {

constexpr SessionId kSession(1);
constexpr Digest128 kParameters{.high = 1, .low = 1};

class RequestLogTest : public ::testing::Test {
 protected:
  StatusOr<int> Run(const std::string& id, const std::function<StatusOr<int>()>& call,
                    Digest128 parameters = kParameters) {
    return log_.Run(
        kSession, id, parameters, call, [&](const int&) { return holds_.load(); },
        [&](const int& reply) { undone_ = reply; }, [] { return absl::OkStatus(); });
  }

  RequestLog<int> log_;
  std::atomic<bool> holds_ = true;
  std::atomic<int> undone_ = 0;
};

TEST_F(RequestLogTest, AFinishedRequestGetsTheSameReplyWhileItHolds) {
  int calls = 0;
  const auto call = [&]() -> StatusOr<int> { return ++calls; };
  EXPECT_EQ(*Run("a", call), 1);
  EXPECT_EQ(*Run("a", call), 1);
  EXPECT_EQ(*Run("b", call), 2);
  EXPECT_EQ(*Run("", call), 3);
  EXPECT_EQ(*Run("", call), 4);
  holds_ = false;
  EXPECT_EQ(*Run("a", call), 5);
}

TEST_F(RequestLogTest, ADuplicateJoinsTheRunningCall) {
  std::atomic<bool> entered = false;
  std::atomic<bool> go = false;
  int calls = 0;
  std::thread first([&] {
    EXPECT_EQ(*Run("a",
                   [&]() -> StatusOr<int> {
                     entered = true;
                     while (!go) std::this_thread::yield();
                     return ++calls;
                   }),
              1);
  });
  while (!entered) std::this_thread::yield();
  std::thread second([&] { EXPECT_EQ(*Run("a", [&]() -> StatusOr<int> { return ++calls; }), 1); });
  go = true;
  first.join();
  second.join();
  EXPECT_EQ(calls, 1);
}

TEST_F(RequestLogTest, OtherParametersUnderAUsedIdAreRefused) {
  ASSERT_TRUE(Run("a", [] { return 1; }).ok());
  EXPECT_TRUE(HasReason(Run(
                            "a", [] { return 2; }, Digest128{.high = 9, .low = 9})
                            .status(),
                        Reason::kRequestIdReused));
}

TEST_F(RequestLogTest, AFailedCallMayBeRepeated) {
  EXPECT_FALSE(Run("a", [] { return StatusOr<int>(Error(Reason::kCapacity, "full")); }).ok());
  EXPECT_EQ(*Run("a", [] { return 1; }), 1);
}

TEST_F(RequestLogTest, WithdrawingARunningCallUndoesWhatItGrants) {
  const StatusOr<int> reply = Run("a", [&]() -> StatusOr<int> {
    EXPECT_EQ(log_.Withdraw(kSession, "a"), std::nullopt);
    return 5;
  });
  EXPECT_TRUE(HasReason(reply.status(), Reason::kCancelled));
  EXPECT_EQ(undone_, 5);
}

TEST_F(RequestLogTest, WithdrawingAFinishedCallReturnsItsReplyOnce) {
  ASSERT_TRUE(Run("a", [] { return 5; }).ok());
  EXPECT_EQ(log_.Withdraw(kSession, "a"), 5);
  EXPECT_EQ(log_.Withdraw(kSession, "a"), std::nullopt);
}

TEST_F(RequestLogTest, ARequestThatArrivesAfterItsWithdrawalIsRefusedUntilTheSessionEnds) {
  log_.Withdraw(kSession, "late");
  log_.Sweep([](SessionId, const int&) { return false; });
  EXPECT_TRUE(HasReason(Run("late", [] { return 1; }).status(), Reason::kCancelled));
  log_.Forget(kSession);
  EXPECT_TRUE(Run("late", [] { return 1; }).ok());
}

TEST_F(RequestLogTest, OnlyTheLastWithdrawalsAreRemembered) {
  for (size_t i = 0; i <= RequestLog<int>::kMostWithdrawn; ++i) {
    log_.Withdraw(kSession, std::to_string(i));
    log_.Withdraw(kSession, std::to_string(i));  // counts once
  }
  EXPECT_TRUE(Run("0", [] { return 1; }).ok());
  EXPECT_TRUE(HasReason(Run("1", [] { return 1; }).status(), Reason::kCancelled));
}

}  // namespace
}  // namespace tenure
