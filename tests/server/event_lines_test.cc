#include "server/event_lines.h"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sstream>
#include <string>

namespace tenure {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(EventLinesTest, WhatNobodyAskedForGetsALine) {
  std::ostringstream text;
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  const auto logger =
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
  logger->set_pattern("%l %v");
  spdlog::set_default_logger(logger);
  spdlog::set_level(spdlog::level::info);
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
  spdlog::set_default_logger(before);
  EXPECT_THAT(text.str(), HasSubstr("warning lease expired device=host:0 arena=weights subject=a@1"
                                    " bytes=20 session=7 "));
  EXPECT_THAT(text.str(), HasSubstr("info reclaimed device= arena= subject=b@2"));
  EXPECT_THAT(text.str(), HasSubstr("error device lost device=gpu:0"));
  EXPECT_THAT(text.str(), HasSubstr("detail=\"it broke\""));
  EXPECT_THAT(text.str(), Not(HasSubstr("quiet")));
}

}  // namespace
}  // namespace tenure
