#include "core/checkpoint/source_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenure {
namespace {

const std::vector<ModelRoot>& Roots() {
  static const std::vector<ModelRoot> roots = {
      {"main", "/srv/models"}, {"inner", "/srv/models/inner"}, {"other", "/data"}};
  return roots;
}

TEST(ResolveSourceTest, JoinsARootsNameAndARelativePath) {
  struct Row {
    const char* source;
    const char* path;
    const char* root;
  };
  for (const Row& row : {
           Row{"main/a.safetensors", "/srv/models/a.safetensors", "/srv/models"},
           Row{"main/a/b/c", "/srv/models/a/b/c", "/srv/models"},
           Row{"other//a/./b/", "/data/a/b", "/data"},
           Row{"main", "/srv/models", "/srv/models"},
           Row{"/srv/models/a", "/srv/models/a", "/srv/models"},
           Row{"/srv//models/./a/", "/srv/models/a", "/srv/models"},
           Row{"/srv/models", "/srv/models", "/srv/models"},
           Row{"/srv/models/inner/a", "/srv/models/inner/a", "/srv/models/inner"},
           Row{"/srv/models/inner2/a", "/srv/models/inner2/a", "/srv/models"},
           Row{"main/..a/a..", "/srv/models/..a/a..", "/srv/models"},
       }) {
    const auto at = ResolveSource(Roots(), row.source);
    ASSERT_TRUE(at.ok()) << row.source << ": " << at.status();
    EXPECT_EQ(at->path, row.path) << row.source;
    EXPECT_EQ(at->root, row.root) << row.source;
  }
}

// Field case 30.
TEST(ResolveSourceTest, RefusesWhatLiesUnderNoRoot) {
  for (const char* source :
       {"/", "/etc/passwd", "/srv", "/srv/models2/a", "/srv/models/../models/a",
        "/srv/models/../../etc/passwd", "main/../other", "main/..", "..", "../main/a", "unknown/a",
        "Main/a", "./main/a", "a"}) {
    const auto at = ResolveSource(Roots(), source);
    EXPECT_TRUE(HasReason(at.status(), Reason::kPathOutsideRoots)) << source;
    EXPECT_THAT(std::string(at.status().message()), testing::HasSubstr(source));
  }
}

TEST(ResolveSourceTest, AnUnknownRootIsAnsweredWithThoseThatThereAre) {
  EXPECT_THAT(std::string(ResolveSource(Roots(), "mian/a").status().message()),
              testing::HasSubstr("main, inner, other"));
}

TEST(ResolveSourceTest, RefusesAnEmptySourceAndZeroBytes) {
  EXPECT_TRUE(HasReason(ResolveSource(Roots(), "").status(), Reason::kInvalidRequest));
  EXPECT_TRUE(HasReason(ResolveSource(Roots(), std::string_view("main/a\0b", 8)).status(),
                        Reason::kInvalidRequest));
}

TEST(ResolveSourceTest, WithoutRootsNothingIsInside) {
  EXPECT_TRUE(HasReason(ResolveSource({}, "/a").status(), Reason::kPathOutsideRoots));
}

TEST(ResolveSourceTest, TheMachinesRootDirectoryCanBeAModelRoot) {
  const auto at = ResolveSource({{"all", "/"}}, "all/models/a");
  ASSERT_TRUE(at.ok()) << at.status();
  EXPECT_EQ(at->path, "/models/a");
}

}  // namespace
}  // namespace tenure
