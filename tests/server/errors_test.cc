#include "server/errors.h"

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <gtest/gtest.h>
#include <string>

namespace tenure {
namespace {

google::rpc::ErrorInfo DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), static_cast<int>(status.error_code()));
  EXPECT_EQ(details.message(), status.error_message());
  google::rpc::ErrorInfo info;
  EXPECT_EQ(details.details_size(), 1);
  EXPECT_TRUE(details.details_size() == 1 && details.details(0).UnpackTo(&info));
  return info;
}

TEST(ErrorsTest, ARefusalNamesItselfAtItsEndHoweverLongItIs) {
  for (const size_t length : {2U, 100'000U}) {
    const Status refused =
        WithValue(Error(Reason::kCapacity, std::string(length, 'x'),
                        {{"a", std::string(3000, 'y')}, {"b", std::string(3000, 'y')}}),
                  kRefusalIdValue, "17");
    const grpc::Status out = ToGrpcStatus(refused);
    EXPECT_TRUE(out.error_message().starts_with("xx"));
    EXPECT_TRUE(out.error_message().ends_with("; refusal 17")) << out.error_message();
    EXPECT_LE(out.error_message().size(), 1536U);
    EXPECT_EQ(DetailsOf(out).metadata().at("refusal_id"), "17");
  }
}

TEST(ErrorsTest, OkIsOk) { EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok()); }

TEST(ErrorsTest, EveryReasonTravelsWithItsCode) {
  for (const Reason reason : kAllReasons) {
    const Status status = Error(reason, "because", {{"free_bytes", "17"}});
    const grpc::Status out = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(out.error_code()), static_cast<int>(status.code())) << status;
    EXPECT_EQ(out.error_message(), "because");
    const google::rpc::ErrorInfo info = DetailsOf(out);
    EXPECT_EQ(info.domain(), "tenure");
    EXPECT_EQ(info.reason(), ReasonName(reason));
    EXPECT_EQ(info.metadata().at("free_bytes"), "17");
  }
}

TEST(ErrorsTest, WhatIsNoTextIsMadeText) {
  const grpc::Status out =
      ToGrpcStatus(Error(Reason::kFileNotFound, "no such file: a\xFF\n", {{"path", "a\xFF"}}));
  EXPECT_EQ(out.error_message(), "no such file: a??");
  EXPECT_EQ(DetailsOf(out).metadata().at("path"), "a?");
}

TEST(ErrorsTest, AnErrorWithoutReasonKeepsItsCode) {
  const grpc::Status out = ToGrpcStatus(absl::InternalError("odd"));
  EXPECT_EQ(out.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(out.error_message(), "odd");
  EXPECT_EQ(out.error_details(), "");
}

TEST(ErrorsTest, WhatIsTooLongForTrailersIsShortened) {
  const std::string two_bytes = "\xc3\xa9";
  std::string text = "x";
  for (int i = 0; i < 8000; ++i) text += two_bytes;
  ErrorValues values;
  for (int i = 0; i < 100; ++i) values.emplace_back("value" + std::to_string(i), text);
  const grpc::Status out = ToGrpcStatus(Error(Reason::kCapacity, text, values));
  EXPECT_LT(out.error_message().size() + out.error_details().size(), 6000u);
  EXPECT_EQ(DetailsOf(out).reason(), "CAPACITY");
  EXPECT_TRUE(out.error_message().ends_with(two_bytes + "..."));
}

}  // namespace
}  // namespace tenure
