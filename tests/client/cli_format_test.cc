// What tenurectl reads and prints, without a daemon.

#include <gtest/gtest.h>
#include <sstream>

#include "client/cli/failure.h"
#include "client/cli/format.h"
#include "client/cli/options.h"
#include "client/cli/progress_bar.h"
#include "client/cli/table.h"

namespace tenure::cli {
namespace {

using std::chrono::nanoseconds;

TEST(CliFormatTest, PrintsBytesInTheirUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(64 << 20), "64 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16 EiB");
}

TEST(CliFormatTest, PrintsDurationsAtTheirScale) {
  EXPECT_EQ(FormatDuration(nanoseconds(350)), "350 ns");
  EXPECT_EQ(FormatDuration(nanoseconds(12'300'000)), "12.3 ms");
  EXPECT_EQ(FormatDuration(std::chrono::seconds(125)), "2m05s");
  EXPECT_EQ(FormatDuration(std::chrono::minutes(192)), "3h12m");
  EXPECT_EQ(FormatDuration(std::chrono::hours(52)), "2d04h");
}

TEST(CliOptionsTest, ReadsDurations) {
  EXPECT_EQ(ParseDuration("500ms"), std::chrono::milliseconds(500));
  EXPECT_EQ(ParseDuration("1h30m"), std::chrono::minutes(90));
  EXPECT_EQ(ParseDuration("0"), nanoseconds(0));
  for (const char* wrong : {"", "5", "-1s", "s", "1 s", "1x", "99999999999999d", "10ms5"}) {
    EXPECT_FALSE(ParseDuration(wrong).has_value()) << wrong;
  }
}

TEST(CliOptionsTest, ReadsRetentions) {
  EXPECT_TRUE(std::holds_alternative<client::RetainForever>(*ParseRetention("never")));
  EXPECT_EQ(std::get<nanoseconds>(*ParseRetention("10m")), std::chrono::minutes(10));
  EXPECT_EQ(std::get<nanoseconds>(*ParseRetention("0")), nanoseconds(0));
  EXPECT_FALSE(ParseRetention("always").has_value());
}

TEST(CliTableTest, AlignsColumnsByTheirWidestEntry) {
  Table table({{"NAME"}, {"SIZE", Align::kRight}, {"NOTE"}});
  table.AddRow({"grüße", "1 B", ""});
  table.AddRow({"a", "100 MiB", "x"});
  std::ostringstream out;
  table.Print(out);
  EXPECT_EQ(out.str(),
            "NAME      SIZE  NOTE\n"
            "grüße      1 B\n"
            "a      100 MiB  x\n");
}

TEST(CliProgressTest, DrawsHowFarALoadIs) {
  EXPECT_EQ(ProgressLine({"read", 1 << 20, 2 << 20, 0}),
            "[===============>              ]  50%  1 MiB of 2 MiB  read");
  EXPECT_EQ(ProgressLine({"open", 0, 0, 0}),
            "[>                             ]   0%  0 B of 0 B  open");
}

TEST(CliFailureTest, EachKindOfFailureHasItsExitCode) {
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("")), kFailed);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), kNotFound);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("")), kDeadline);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), kUnreachable);
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), kOk);
}

}  // namespace
}  // namespace tenure::cli
