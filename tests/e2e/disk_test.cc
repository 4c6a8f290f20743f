// A daemon whose disk is full, or whose directory it may not write.

#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "core/base/unique_fd.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/client/program.h"
#include "tests/e2e/models.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

// Runs what follows in a mount namespace of its own, once `script` has been run there by a shell,
// in which "$directory" is the argument behind --directory.
std::vector<std::string> Mounted(const std::string& script) {
  return {"/usr/bin/unshare",
          "--mount",
          "/bin/sh",
          "-c",
          "for directory; do :; done; { " + script + "; } && exec \"$@\"",
          "sh"};
}

std::string MountsRefused(const TempDir& temp) {
  std::vector<std::string> command = Mounted("mount -t tmpfs tenure \"$directory\"");
  command.insert(command.end(), {"/usr/bin/test", "-d", temp.MakeDir("probe")});
  Program probe(std::move(command), temp / "probe-mount");
  return probe.Wait() == 0 ? "" : "nothing can be mounted here: " + probe.Err();
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The sockets, pinned.yaml and the log lie on a disk of 256 KiB.
class FullDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string refused = MountsRefused(temp_); !refused.empty()) GTEST_SKIP() << refused;
    daemon_ = std::make_unique<Tenured>(TenuredSettings{
        .wrapper = Mounted("mount -t tmpfs -o size=256k tenure \"$directory\" && exec "
                           "2>\"$directory/log\"")});
  }

  std::string Here(const std::string& name) const { return daemon_->directory() + "/" + name; }
  void FillDisk() const {
    const UniqueFd ballast(
        open(Here("ballast").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    ASSERT_TRUE(ballast.valid());
    const std::string page(4096, 'x');
    while (write(ballast.get(), page.data(), page.size()) > 0) {
    }
    ASSERT_EQ(errno, ENOSPC);
  }
  void EmptyDisk() const { ASSERT_EQ(unlink(Here("ballast").c_str()), 0); }

  const TempDir temp_;
  std::unique_ptr<Tenured> daemon_;
};

TEST_F(FullDiskTest, APinThatCannotBeSavedIsRefusedWholeAndTakenOnceThereIsRoom) {
  const ModelFile a = WriteModel(*daemon_, "a", {.target = MiB(4)}, 1);
  const ModelFile b = WriteModel(*daemon_, "b", {.target = MiB(4)}, 2);
  const Client client = daemon_->Connect();
  ASSERT_TRUE(client.Load({.name = "a", .path = a.path, .pin = true}).ok());
  const std::string saved = TextOf(Here("pinned.yaml"));
  EXPECT_NE(saved.find("\"a\""), std::string::npos);

  FillDisk();
  const auto refused = client.Load({.name = "b", .path = b.path, .pin = true, .acquire = true});
  EXPECT_EQ(ErrorReason(refused.status()), "BACKEND") << refused.status();
  const std::string message(refused.status().message());
  EXPECT_NE(message.find("pinned.yaml"), std::string::npos) << message;
  EXPECT_NE(message.find("No space left on device"), std::string::npos) << message;
  EXPECT_EQ(client.List()->size(), 1U);
  EXPECT_EQ(Scrape::Of(daemon_->metrics_address()).Value("tenure_leases"), 0U);
  EXPECT_EQ(TextOf(Here("pinned.yaml")), saved);
  EXPECT_NE(access(Here("pinned.yaml.next").c_str(), F_OK), 0);
  // What needs no disk goes on.
  const auto loaded = client.Load({.name = "b", .path = b.path, .acquire = true});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(Difference(*loaded->lease, b), "");
  ASSERT_TRUE(client.Unload("a").ok());
  EXPECT_EQ(TextOf(Here("pinned.yaml")), saved);

  EmptyDisk();
  // What was done meanwhile is written without anybody's doing.
  EXPECT_TRUE(
      Eventually([&] { return TextOf(Here("pinned.yaml")).find("\"a\"") == std::string::npos; }));
  ASSERT_TRUE(client.Load({.name = "b", .path = b.path, .pin = true}).ok());
  EXPECT_NE(TextOf(Here("pinned.yaml")).find("\"b\""), std::string::npos);
}

TEST_F(FullDiskTest, ALogThatCannotBeWrittenStopsNothingAndGoesOnOnceThereIsRoom) {
  const ModelFile a = WriteModel(*daemon_, "a", {.target = MiB(4)}, 1);
  const ModelFile b = WriteModel(*daemon_, "b", {.target = MiB(4)}, 2);
  const Client client = daemon_->Connect();
  FillDisk();
  // Far more than the log's last page has room for.
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client.Load({.name = "a", .path = a.path}).ok());
    ASSERT_TRUE(client.Unload("a").ok());
  }
  const std::string full = TextOf(Here("log"));
  EXPECT_TRUE(client::CheckHealth(daemon_->directory(), std::chrono::seconds(10)).value_or(false));
  EXPECT_EQ(full.find("session closed"), std::string::npos);
  EmptyDisk();
  ASSERT_TRUE(client.Load({.name = "b", .path = b.path}).ok());
  const std::string log = TextOf(Here("log"));
  EXPECT_TRUE(log.starts_with(full));
  EXPECT_NE(log.find("model loaded name=b"), std::string::npos);
}

// The daemon, which must refuse to start and say why.
class UnwritableTest : public ::testing::Test {
 protected:
  // Runs the daemon in `wrapper`; what it says on its end, which must be a failure.
  std::string Refusal(std::vector<std::string> wrapper) const {
    // One that serves would never end.
    wrapper.insert(wrapper.begin(), {"/usr/bin/timeout", "30"});
    wrapper.insert(wrapper.end(),
                   {TENURED_PATH, "--metrics-address", "", "--directory", directory_});
    Program daemon(std::move(wrapper), temp_ / "tenured");
    EXPECT_EQ(daemon.Wait(), 1);
    return daemon.Err();
  }
  static void ExpectNames(const std::string& refusal, const std::string& path,
                          const std::string& cause) {
    EXPECT_NE(refusal.find(path + ": " + cause), std::string::npos) << refusal;
  }
  // Runs what follows as a user who is nobody.
  static std::vector<std::string> AsNobody() {
    return {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  }
  std::string NobodyRefused() const {
    std::vector<std::string> command = AsNobody();
    command.insert(command.end(), {TENURED_PATH, "--version"});
    Program probe(std::move(command), temp_ / "probe-nobody");
    return probe.Wait() == 0 ? "" : "the daemon cannot be run as another user: " + probe.Err();
  }

  const TempDir temp_;
  const std::string directory_ = temp_.MakeDir("run");
};

TEST_F(UnwritableTest, AReadOnlyFileSystemIsNamedWithThePath) {
  if (const std::string refused = MountsRefused(temp_); !refused.empty()) GTEST_SKIP() << refused;
  ExpectNames(Refusal(Mounted("mount -t tmpfs -o ro tenure \"$directory\"")),
              directory_ + "/tenured.lock", "Read-only file system");
}

TEST_F(UnwritableTest, ADirectoryOfSomebodyElseIsNamedWithThePath) {
  if (const std::string refused = NobodyRefused(); !refused.empty()) GTEST_SKIP() << refused;
  ASSERT_EQ(chmod(temp_.path().c_str(), 0755), 0);
  ExpectNames(Refusal(AsNobody()), directory_ + "/tenured.lock", "Permission denied");
}

TEST_F(UnwritableTest, ADirectoryThatMayNotBeWrittenBesideALockThatMayIsNamedWithThePath) {
  if (const std::string refused = NobodyRefused(); !refused.empty()) GTEST_SKIP() << refused;
  ASSERT_EQ(chmod(temp_.path().c_str(), 0755), 0);
  const std::string lock = temp_.WriteFile("run/tenured.lock", "");
  ASSERT_EQ(chown(lock.c_str(), 65534, 65534), 0);
  ExpectNames(Refusal(AsNobody()), directory_ + "/handle.sock", "Permission denied");
}

// Else they would be gone with the next pin that is saved.
TEST_F(UnwritableTest, PinsThatMayNotBeReadAreNamedWithThePath) {
  if (const std::string refused = NobodyRefused(); !refused.empty()) GTEST_SKIP() << refused;
  ASSERT_EQ(chmod(temp_.path().c_str(), 0755), 0);
  ASSERT_EQ(chown(directory_.c_str(), 65534, 65534), 0);
  const std::string pins = temp_.WriteFile("run/pinned.yaml", "models: []\n");
  ASSERT_EQ(chmod(pins.c_str(), 0600), 0);
  ExpectNames(Refusal(AsNobody()), pins, "Permission denied");
}

}  // namespace
}  // namespace tenure
