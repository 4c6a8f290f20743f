#include "tenure/errors.h"

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <gtest/gtest.h>

#include "client/cpp/error.h"
#include "client/cpp/rpc_status.h"

namespace tenure::client {
namespace {

TEST(ErrorsTest, ARefusalOfTheDaemonKeepsItsReasonAndValues) {
  google::rpc::ErrorInfo info;
  info.set_domain("tenure");
  info.set_reason("CAPACITY");
  (*info.mutable_metadata())["free_bytes"] = "1024";
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  const absl::Status status = FromRpc(
      grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too large", details.SerializeAsString()));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "too large");
  EXPECT_EQ(ErrorReason(status), "CAPACITY");
  EXPECT_EQ(ErrorValues(status), (std::map<std::string, std::string>{{"free_bytes", "1024"}}));
  EXPECT_FALSE(EndedWithoutReply(status));
}

TEST(ErrorsTest, AStatusWithoutAReasonHasNone) {
  EXPECT_EQ(ErrorReason(absl::OkStatus()), "");
  EXPECT_EQ(ErrorReason(absl::InternalError("x")), "");
  EXPECT_TRUE(ErrorValues(absl::InternalError("x")).empty());
}

TEST(ErrorsTest, DetailsThatDoNotParseLeaveTheStatusAsItIs) {
  const absl::Status status =
      FromRpc(grpc::Status(grpc::StatusCode::NOT_FOUND, "no such model", "\xff\xff\xff"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrorReason(status), "");
}

TEST(ErrorsTest, ACutOffCallIsToldFromARefusal) {
  EXPECT_TRUE(EndedWithoutReply(absl::DeadlineExceededError("")));
  EXPECT_TRUE(EndedWithoutReply(absl::UnavailableError("")));
  EXPECT_TRUE(EndedWithoutReply(absl::CancelledError("")));
  EXPECT_FALSE(EndedWithoutReply(absl::OkStatus()));
  EXPECT_FALSE(EndedWithoutReply(MakeError(absl::StatusCode::kDeadlineExceeded, "DEADLINE", "")));
}

TEST(ErrorsTest, ADaemonThatCannotBeReachedIsToldFromOneThatRefuses) {
  EXPECT_TRUE(IsUnreachable(MakeError(absl::StatusCode::kUnavailable, kDaemonGone, "")));
  EXPECT_TRUE(IsUnreachable(absl::UnavailableError("")));
  EXPECT_FALSE(IsUnreachable(MakeError(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "")));
  EXPECT_FALSE(IsUnreachable(absl::OkStatus()));
}

}  // namespace
}  // namespace tenure::client
