#include "server/quantity.h"

#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <utility>

namespace tenure {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(ParseDurationTest, ReadsWholeNumbersWithUnits) {
  const std::pair<const char*, Duration> kCases[] = {
      {"10m", minutes(10)},         {"30s", seconds(30)},
      {"200ms", milliseconds(200)}, {"1h30m", minutes(90)},
      {"7d", hours(168)},           {"1m1s1ms", minutes(1) + seconds(1) + milliseconds(1)},
      {"0", Duration::zero()},      {"0s", Duration::zero()},
      {"never", kForever},          {"36500d", hours(24 * 36500)},
  };
  for (const auto& [text, expected] : kCases) {
    const StatusOr<Duration> duration = ParseDuration(text);
    ASSERT_TRUE(duration.ok()) << text << ": " << duration.status();
    EXPECT_EQ(*duration, expected) << text;
  }
}

TEST(ParseDurationTest, RefusesEverythingElseAndQuotesIt) {
  for (const char* text : {"-1",
                           "-1s",
                           "",
                           " ",
                           "5 m",
                           " 5m",
                           "5m ",
                           "1e18",
                           "1e18s",
                           "5",
                           "1",
                           "m",
                           "1.5s",
                           "5M",
                           "5min",
                           "30m1h",
                           "1m1m",
                           "1h30",
                           "+5s",
                           "0x10s",
                           "99999999999999999999s",
                           "36501d",
                           "9223372036854775807h",
                           "forever",
                           "Never",
                           "NaN",
                           "inf",
                           "~",
                           "5\xc2\xb5s"}) {
    const StatusOr<Duration> duration = ParseDuration(text);
    EXPECT_TRUE(HasReason(duration.status(), Reason::kInvalidRequest)) << '"' << text << '"';
    EXPECT_NE(duration.status().message().find('"' + std::string(text) + '"'), std::string::npos);
  }
}

TEST(ParseSizeTest, ReadsBytesAndBinaryUnits) {
  const std::pair<const char*, Bytes> kCases[] = {
      {"0", Bytes(0)},        {"4096", Bytes(4096)},
      {"4096B", Bytes(4096)}, {"512KiB", KiB(512)},
      {"64MiB", MiB(64)},     {"1GiB", GiB(1)},
      {"2TiB", GiB(2048)},    {"9223372036854775808", Bytes(uint64_t{1} << 63)},
  };
  for (const auto& [text, expected] : kCases) {
    const StatusOr<Bytes> size = ParseSize(text);
    ASSERT_TRUE(size.ok()) << text << ": " << size.status();
    EXPECT_EQ(*size, expected) << text;
  }
}

TEST(ParseSizeTest, RefusesEverythingElse) {
  for (const char* text : {"", "-1", "1.5GiB", "64 MiB", "64MB", "64M", "64mib", "MiB", "1e9", "+1",
                           "9223372036854775809", "8388609TiB", "99999999999999999999"}) {
    EXPECT_TRUE(HasReason(ParseSize(text).status(), Reason::kInvalidRequest)) << '"' << text << '"';
  }
}

TEST(ParseAmountTest, ReadsSizesSharesAndAllButASize) {
  EXPECT_EQ(*ParseAmount("70%"), Amount(Percent{70}));
  EXPECT_EQ(*ParseAmount("12.5%"), Amount(Percent{12.5}));
  EXPECT_EQ(*ParseAmount("64MiB"), Amount(MiB(64)));
  EXPECT_EQ(*ParseAmount("all-4GiB"), Amount(AllBut{GiB(4)}));
  EXPECT_EQ(*ParseAmount("all"), Amount(AllBut{}));
  for (const char* text : {"0%", "101%", "-1%", "%", " 5%", "5 %", "1e1%", "nan%", "inf%", "5%%",
                           "all-", "all-5%", "all- 4GiB", "all-all", "All", "4GiB-all"}) {
    EXPECT_FALSE(ParseAmount(text).ok()) << '"' << text << '"';
  }
}

TEST(WriteTest, WritesWhatIsReadBackTheSame) {
  for (const char* text : {"0", "1", "1023", "1KiB", "1025", "3MiB", "1025MiB", "2TiB", "70%",
                           "12.5%", "0.1%", "all", "all-4GiB"}) {
    const StatusOr<Amount> amount = ParseAmount(text);
    ASSERT_TRUE(amount.ok()) << amount.status();
    EXPECT_EQ(WriteAmount(*amount), text);
  }
  for (const char* text : {"0", "never", "1ms", "200ms", "30s", "1m30s", "10m", "1h", "2d3h"}) {
    const StatusOr<Duration> duration = ParseDuration(text);
    ASSERT_TRUE(duration.ok()) << duration.status();
    EXPECT_EQ(WriteDuration(*duration), text);
  }
}

TEST(ResolveTest, TakesAPartOfTheWhole) {
  EXPECT_EQ(Resolve(Percent{50}, MiB(10)), MiB(5));
  EXPECT_EQ(Resolve(Percent{100}, Bytes(INT64_MAX)), Bytes(INT64_MAX));
  EXPECT_EQ(Resolve(MiB(64), MiB(10)), MiB(64));
  EXPECT_EQ(Resolve(AllBut{MiB(4)}, MiB(10)), MiB(6));
  EXPECT_EQ(Resolve(AllBut{MiB(11)}, MiB(10)), Bytes(0));
}

}  // namespace
}  // namespace tenure
