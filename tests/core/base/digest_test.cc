#include "core/base/digest.h"

#include <gtest/gtest.h>
#include <set>
#include <span>
#include <string_view>

namespace tenure {
namespace {

template <typename... Fields>
Digest128 DigestFields(Fields... fields) {
  Digester digester;
  (digester.Add(fields), ...);
  return digester.Finish();
}

Digest128 DigestText(std::string_view text) { return DigestOf(std::as_bytes(std::span(text))); }

TEST(DigestTest, EqualBytesHaveEqualDigests) {
  EXPECT_EQ(DigestText("weights"), DigestText("weights"));
  EXPECT_NE(DigestText("weights"), DigestText("weightz"));
}

// The digest is written down by those who verify checksums: it must not change between versions.
TEST(DigestTest, IsThePublishedXxh3) {
  EXPECT_EQ(DigestText("").ToHex(), "99aa06d3014798d86001c324468d497f");
}

TEST(DigestTest, HexHasThirtyTwoDigitsWithLeadingZeros) {
  EXPECT_EQ((Digest128{.high = 1, .low = 0xAB}.ToHex()), "000000000000000100000000000000ab");
}

TEST(DigesterTest, TheSameFieldsGiveTheSameDigest) {
  EXPECT_EQ(DigestFields(std::string_view("a"), uint64_t{1}),
            DigestFields(std::string_view("a"), uint64_t{1}));
}

TEST(DigesterTest, NoTwoSequencesFeedTheSameBytes) {
  using std::string_view;
  const std::set<Digest128> digests = {
      DigestFields(),
      DigestFields(string_view("")),
      DigestFields(string_view(""), string_view("")),
      DigestFields(string_view("ab")),
      DigestFields(string_view("a"), string_view("b")),
      DigestFields(string_view("b"), string_view("a")),
      DigestFields(string_view(""), string_view("ab")),
      DigestFields(string_view("ab"), string_view("")),
      DigestFields(uint64_t{1}),
      DigestFields(uint64_t{1}, uint64_t{0}),
      DigestFields(uint64_t{0}, uint64_t{1}),
  };
  EXPECT_EQ(digests.size(), 11u);
}

TEST(DigesterTest, FinishLeavesTheDigesterAsItWas) {
  Digester digester;
  digester.Add(uint64_t{1});
  EXPECT_EQ(digester.Finish(), digester.Finish());
  digester.Add(uint64_t{2});
  EXPECT_EQ(digester.Finish(), DigestFields(uint64_t{1}, uint64_t{2}));
}

}  // namespace
}  // namespace tenure
