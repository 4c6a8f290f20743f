#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "client/cli/nearest.h"
#include "client/cli/xml.h"

namespace tenure::cli {
namespace {

TEST(NearestTest, FindsWhatWasMeant) {
  const std::vector<std::string> known = {"load", "unload", "models", "model", "map", "top"};
  EXPECT_EQ(NearestOf(known, "modles"), "models");
  EXPECT_EQ(NearestOf(known, "mode"), "model");
  EXPECT_EQ(NearestOf(known, "laod"), "load");
  EXPECT_EQ(NearestOf(known, "uload"), "load");
  EXPECT_EQ(NearestOf(known, "tpo"), "top");
  EXPECT_EQ(NearestOf(known, "map"), "map");
}

TEST(NearestTest, GuessesNothingFarFetched) {
  const std::vector<std::string> known = {"load", "models"};
  EXPECT_EQ(NearestOf(known, "evict"), "");
  EXPECT_EQ(NearestOf(known, ""), "");
  EXPECT_EQ(NearestOf(known, "x"), "");
  EXPECT_EQ(NearestOf(known, std::string(1 << 20, 'o')), "");
  EXPECT_EQ(NearestOf({}, "load"), "");
}

TEST(XmlTest, EscapesMarkupAndReplacesWhatXmlDoesNotHave) {
  EXPECT_EQ(XmlText("a<b> & \"c\"\t"), "a&lt;b&gt; &amp; \"c\"\t");
  EXPECT_EQ(XmlText("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80");
  const std::string no = "\xEF\xBF\xBD";
  for (const char* alone : {"\x01", "\n", "\x80", "\xFF", "\xC3", "\xF8"}) {
    EXPECT_EQ(XmlText(alone), no) << alone;
  }
  EXPECT_EQ(XmlText("\xC0\x80"), no + no);                    // longer than it has to be
  EXPECT_EQ(XmlText("\xED\xA0\x80"), no + no + no);           // half of a pair
  EXPECT_EQ(XmlText("\xEF\xBF\xBE"), no + no + no);           // U+FFFE
  EXPECT_EQ(XmlText("\xF4\x90\x80\x80"), no + no + no + no);  // beyond the last
  EXPECT_EQ(XmlText("\xE2\x82x"), no + no + "x");
}

}  // namespace
}  // namespace tenure::cli
