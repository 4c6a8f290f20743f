#include "server/pin_file.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

class PinFileTest : public ::testing::Test {
 protected:
  std::string Path() const { return directory_ / "pinned.yaml"; }

  TempDir directory_;
};

TEST_F(PinFileTest, WhatWasWrittenReadsBack) {
  const std::vector<WantedModel> models = {
      {.name = "a/b", .path = "models/a.safetensors", .device = "host:0", .pin = true},
      {.name = "c",
       .path = "models/odd: \"name\" #1\n- x",
       .pin = true,
       .retain_ttl = std::chrono::seconds(90)},
      {.name = "d", .path = "x", .pin = true, .retain_ttl = kForever},
      {.name = "e", .path = "y", .pin = true, .retain_ttl = Duration::zero()},
  };
  ASSERT_TRUE(PinFile(Path()).Write(models).ok());
  const auto read = PinFile(Path()).Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, models);
}

TEST_F(PinFileTest, NoModelsReadBackAsNone) {
  ASSERT_TRUE(PinFile(Path()).Write({}).ok());
  EXPECT_TRUE(PinFile(Path()).Read()->empty());
}

TEST_F(PinFileTest, AMissingFileHoldsNothing) { EXPECT_TRUE(PinFile(Path()).Read()->empty()); }

TEST_F(PinFileTest, AFileThatNobodyWroteSoIsRefusedWithItsPlace) {
  directory_.WriteFile("pinned.yaml", "models:\n  - {name: a, where: x}\n");
  const auto read = PinFile(Path()).Read();
  EXPECT_NE(std::string(read.status().message()).find("pinned.yaml:2"), std::string::npos)
      << read.status();
  directory_.WriteFile("pinned.yaml", std::string("models: [\0\xff", 11));
  EXPECT_FALSE(PinFile(Path()).Read().ok());
}

TEST_F(PinFileTest, AFileIsReplacedAsAWhole) {
  PinFile file(Path());
  ASSERT_TRUE(file.Write({{.name = "a", .path = "x", .pin = true}}).ok());
  std::ifstream old(Path());
  ASSERT_TRUE(file.Write({{.name = "b", .path = "y", .pin = true}}).ok());
  std::ostringstream text;
  text << old.rdbuf();
  EXPECT_NE(text.str().find("\"a\""), std::string::npos);  // who has it open reads on
  EXPECT_EQ(file.Read()->front().name, "b");
  EXPECT_FALSE(std::filesystem::exists(Path() + ".next"));
}

TEST_F(PinFileTest, AFileThatCannotBeReadIsAnErrorThatNamesItAndTheCause) {
  directory_.MakeDir("pinned.yaml");
  const Status read = PinFile(Path()).Read().status();
  EXPECT_TRUE(HasReason(read, Reason::kBackend));
  EXPECT_NE(std::string(read.message()).find(Path() + ": Is a directory"), std::string::npos)
      << read;
}

TEST_F(PinFileTest, WhatCannotReplaceTheFileIsNotLeftBehind) {
  directory_.MakeDir("pinned.yaml");
  EXPECT_FALSE(PinFile(Path()).Write({{.name = "a", .path = "x", .pin = true}}).ok());
  EXPECT_FALSE(std::filesystem::exists(Path() + ".next"));
}

TEST_F(PinFileTest, AFileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  PinFile file(directory_ / "missing/pinned.yaml");
  const Status written = file.Write({{.name = "a", .path = "x", .pin = true}});
  EXPECT_TRUE(HasReason(written, Reason::kBackend));
  EXPECT_NE(std::string(written.message()).find("missing/pinned.yaml"), std::string::npos);
}

}  // namespace
}  // namespace tenure
