#include "server/event_lines.h"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/captured_log.h"

namespace tenure {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(EventLinesTest, WhatNobodyAskedForGetsALine) {
  const CapturedLog log;
  LogEvents(
      std::array{Event{.kind = EventKind::kLeaseExpired,
                       .device = "host:0",
                       .arena = "weights",
                       .session = SessionId(7),
                       .subject = "a@1",
                       .bytes = Bytes(20)},
                 Event{.kind = EventKind::kLeaseReleased, .subject = "quiet"},
                 Event{.kind = EventKind::kReclaimed, .subject = "b@2", .detail = "pressure"},
                 Event{.kind = EventKind::kDeviceLost, .device = "gpu:0", .detail = "it broke"}});
  EXPECT_THAT(log.text(), HasSubstr("warning lease expired device=host:0 arena=weights subject=a@1"
                                    " bytes=20 session=7 "));
  EXPECT_THAT(log.text(), HasSubstr("info reclaimed device= arena= subject=b@2"));
  EXPECT_THAT(log.text(), HasSubstr("error device lost device=gpu:0"));
  EXPECT_THAT(log.text(), HasSubstr("detail=\"it broke\""));
  EXPECT_THAT(log.text(), Not(HasSubstr("quiet")));
}

}  // namespace
}  // namespace tenure
