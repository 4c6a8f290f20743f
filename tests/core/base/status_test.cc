#include "core/base/status.h"

#include <gtest/gtest.h>
#include <memory>
#include <set>

namespace tenure {
namespace {

TEST(StatusTest, EveryReasonHasANameOfItsOwnAndAnErrorCode) {
  std::set<std::string_view> names;
  for (const Reason reason : kAllReasons) {
    EXPECT_TRUE(names.insert(ReasonName(reason)).second) << ReasonName(reason);
    EXPECT_FALSE(Error(reason, "no").ok()) << ReasonName(reason);
  }
}

TEST(StatusTest, AllReasonsAreListed) {
  // Reasons count up from the first one to the last one.
  EXPECT_EQ(std::size(kAllReasons), static_cast<size_t>(Reason::kRestartNeeded) + 1);
}

TEST(StatusTest, TheDetailReadsBackAsWritten) {
  const ErrorValues values = {{"free_bytes", "1048576"}, {"path", "/models/a=b.safetensors"}};
  const Status status = Error(Reason::kCapacity, "no room: 1048576", values);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "no room: 1048576");
  const auto detail = DetailOf(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, "CAPACITY");
  EXPECT_EQ(detail->values, values);
}

TEST(StatusTest, ADetailWithoutValuesReadsBack) {
  const auto detail = DetailOf(Error(Reason::kDeadline, "late"));
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, "DEADLINE");
  EXPECT_TRUE(detail->values.empty());
}

TEST(StatusTest, AValueOfSeveralLinesCannotForgeAnother) {
  const auto detail = DetailOf(Error(Reason::kLimit, "no", {{"name", "a\nreason=b"}}));
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->values, (ErrorValues{{"name", "a reason=b"}}));
}

TEST(StatusTest, AnEmptyValueReadsBackAsEmpty) {
  const auto detail = DetailOf(Error(Reason::kLimit, "no", {{"name", ""}}));
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->values, (ErrorValues{{"name", ""}}));
}

TEST(StatusTest, OtherStatusesHaveNoDetail) {
  EXPECT_FALSE(DetailOf(absl::OkStatus()).has_value());
  EXPECT_FALSE(DetailOf(absl::InternalError("x")).has_value());
  EXPECT_FALSE(HasReason(absl::InternalError("x"), Reason::kBackend));
}

TEST(StatusTest, HasReasonTellsReasonsOfOneCodeApart) {
  const Status status = Error(Reason::kHeldByLeases, "held");
  EXPECT_TRUE(HasReason(status, Reason::kHeldByLeases));
  EXPECT_FALSE(HasReason(status, Reason::kCapacity));
}

TEST(StatusTest, AValueThatIsAddedComesFirstAndChangesNothingElse) {
  const Status plain = WithValue(Error(Reason::kLimit, "no"), "id", "7");
  EXPECT_EQ(DetailOf(plain)->reason, "LIMIT");
  EXPECT_EQ(DetailOf(plain)->values, (ErrorValues{{"id", "7"}}));
  const Status status = WithValue(Error(Reason::kLimit, "no", {{"a", "b"}}), "id", "7\n8");
  EXPECT_EQ(status.message(), "no");
  EXPECT_EQ(DetailOf(status)->values, (ErrorValues{{"id", "7 8"}, {"a", "b"}}));
  EXPECT_FALSE(DetailOf(WithValue(absl::InternalError("x"), "id", "7")).has_value());
}

StatusOr<std::unique_ptr<int>> Make(bool works) {
  if (!works) return Error(Reason::kLimit, "no more");
  return std::make_unique<int>(7);
}

Status Use(bool works, int& seen) {
  TENURE_ASSIGN_OR_RETURN(const std::unique_ptr<int> value, Make(works));
  TENURE_RETURN_IF_ERROR(absl::OkStatus());
  seen = *value;
  return absl::OkStatus();
}

TEST(StatusMacrosTest, PassOnTheValueOrTheError) {
  int seen = 0;
  EXPECT_TRUE(Use(true, seen).ok());
  EXPECT_EQ(seen, 7);
  seen = 0;
  EXPECT_TRUE(HasReason(Use(false, seen), Reason::kLimit));
  EXPECT_EQ(seen, 0);
}

}  // namespace
}  // namespace tenure
