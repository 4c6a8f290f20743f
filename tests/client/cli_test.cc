// tenurectl against a daemon.

#include <array>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <pty.h>
#include <string>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/unique_fd.h"
#include "tenure/client.h"
#include "tests/client/cli_fixture.h"
#include "tests/client/model_files.h"
#include "tests/client/program.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_backend.h"

namespace tenure {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST_F(CliTest, LoadsShowsAndUnloadsAModel) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Outcome load = Run({"load", "team/a", "models/a.safetensors", "--pin"});
  EXPECT_EQ(load.code, 0) << load.err;
  EXPECT_THAT(load.out, HasSubstr("team/a@1 on " + TestDeviceName() + ": fresh, 8"));
  EXPECT_THAT(load.out, HasSubstr(" created, 0 reused\n"));

  const Outcome models = Run({"models"});
  EXPECT_THAT(models.out, HasSubstr("NAME"));
  EXPECT_THAT(models.out, HasSubstr("team/a"));
  EXPECT_THAT(models.out, HasSubstr(file.path));

  const Outcome model = Run({"model", "team/a", "--tensors"});
  EXPECT_EQ(model.code, 0) << model.err;
  EXPECT_THAT(model.out, HasSubstr("active"));
  EXPECT_THAT(model.out, HasSubstr(file.specs[0].name));

  const Outcome unload = Run({"unload", "team/a"});
  EXPECT_EQ(unload.code, 0) << unload.err;
  EXPECT_THAT(unload.out, HasSubstr("team/a: retained, 0 B freed"));
}

TEST_F(CliTest, PrintsJsonThatParses) {
  WriteModel(daemon_, "a", 8);
  const json load = json::parse(Run({"--json", "load", "a", "models/a.safetensors"}).out);
  EXPECT_EQ(load["reuse"], "fresh");
  EXPECT_EQ(load["model"]["name"], "a");
  const json models = json::parse(Run({"--json", "models"}).out);
  EXPECT_EQ(models["models"].size(), 1u);
  const json arenas = json::parse(Run({"arenas", "--json"}).out)["devices"][0]["arenas"][0];
  EXPECT_EQ(arenas["capacity"].get<uint64_t>(),
            arenas["leased"].get<uint64_t>() + arenas["loading"].get<uint64_t>() +
                arenas["idle"].get<uint64_t>() + arenas["retained"].get<uint64_t>() +
                arenas["quarantined"].get<uint64_t>() + arenas["padding"].get<uint64_t>() +
                arenas["free"].get<uint64_t>());
  const json sessions = json::parse(Run({"--json", "sessions"}).out);
  EXPECT_EQ(sessions["sessions"].back()["program"], "tenurectl");
  EXPECT_EQ(json::parse(Run({"--json", "health"}).out)["serving"], true);
  EXPECT_EQ(json::parse(Run({"--json", "version"}).out)["tenured"]["version"],
            std::string(client::Version()));
}

TEST_F(CliTest, PrintsTheWholeLedger) {
  const Outcome arenas = Run({"arenas"});
  EXPECT_EQ(arenas.code, 0) << arenas.err;
  for (const char* row : {"capacity", "leased", "loading", "idle", "retained", "quarantined",
                          "padding", "stranded", "free", "cached", "unbacked", "reserved",
                          "allocated", "requested", "largest_free", "fragmentation"}) {
    EXPECT_THAT(arenas.out, HasSubstr(std::string("\n") + row)) << row;
  }
}

TEST_F(CliTest, OnlyChecksAFileWithValidateOnly) {
  WriteModel(daemon_, "a", 8);
  const Outcome good = Run({"load", "a", "models/a.safetensors", "--validate-only"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("is valid"));
  EXPECT_THAT(Run({"models"}).out, HasSubstr("no models"));
}

TEST_F(CliTest, AFailureTellsItsReasonAndWhatHelps) {
  const Outcome missing = Run({"model", "nobody"});
  EXPECT_EQ(missing.code, 4);
  EXPECT_EQ(missing.out, "");
  EXPECT_THAT(missing.err, HasSubstr("reason: MODEL_NOT_FOUND"));
  EXPECT_THAT(missing.err, HasSubstr("hint: "));

  const json error = json::parse(Run({"--json", "load", "x", "/etc/passwd"}).err)["error"];
  EXPECT_EQ(error["reason"], "PATH_OUTSIDE_ROOTS");
}

TEST_F(CliTest, ARefusalNamesTheCommandThatExplainsIt) {
  WriteModel(daemon_, "big", 300);
  const Outcome refused = Run({"load", "big", "models/big.safetensors"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("; refusal 1\n"));
  EXPECT_THAT(refused.err, HasSubstr("hint: it can only fit if weights get more of"));
  EXPECT_THAT(refused.err, HasSubstr("tenurectl explain 1\n"));

  const Outcome explained = Run({"explain", "1"});
  EXPECT_EQ(explained.code, 0) << explained.err;
  for (const char* part :
       {"LoadModel", "tenurectl/", "CAPACITY", "needed_bytes", " ago", "the same now:", "never"}) {
    EXPECT_THAT(explained.out, HasSubstr(part));
  }
  const json told = json::parse(Run({"--json", "explain", "1"}).out);
  EXPECT_EQ(told["refusal_id"], 1);
  EXPECT_EQ(told["reason"], "CAPACITY");
  EXPECT_EQ(told["program"], "tenurectl");
  EXPECT_EQ(told["now"]["verdict"], "never");
  EXPECT_GT(told["age_ns"].get<int64_t>(), 0);

  const json error = json::parse(Run({"--json", "load", "big", "models/big.safetensors"}).err);
  EXPECT_EQ(error["error"]["explain"], "tenurectl explain 2");

  const Outcome unknown = Run({"explain", "999"});
  EXPECT_EQ(unknown.code, 4);
  EXPECT_THAT(unknown.err, HasSubstr("REFUSAL_NOT_FOUND"));
  EXPECT_THAT(unknown.err, HasSubstr("the last 1000"));
}

TEST_F(CliTest, FitTellsWhetherThereIsRoomAndScriptsByItsExitCode) {
  WriteModel(daemon_, "small", 8);
  WriteModel(daemon_, "big", 300);
  const Outcome small = Run({"fit", "models/small.safetensors"});
  EXPECT_EQ(small.code, 0) << small.err;
  EXPECT_THAT(small.out, HasSubstr("LARGEST NOW"));
  EXPECT_THAT(small.out, HasSubstr(TestDeviceName() + ": "));
  EXPECT_THAT(Run({"models"}).out, HasSubstr("no models"));

  const Outcome big = Run({"fit", "models/big.safetensors", "--device", TestDeviceName()});
  EXPECT_EQ(big.code, 1);
  EXPECT_THAT(big.out, HasSubstr("never"));
  EXPECT_THAT(big.out, HasSubstr("it can only fit if weights get more of"));

  const json fit = json::parse(Run({"--json", "fit", "models/small.safetensors"}).out)["devices"];
  ASSERT_EQ(fit.size(), 1u);
  EXPECT_EQ(fit[0]["verdict"], "now");
  EXPECT_EQ(fit[0]["capacity_bytes"], uint64_t{256} << 20);
  EXPECT_EQ(fit[0]["largest_now_bytes"], uint64_t{256} << 20);

  EXPECT_EQ(Run({"fit", "models/none.safetensors"}).code, 4);
  EXPECT_EQ(Run({"fit", "models/small.safetensors", "--device", "gpu:7"}).code, 4);
  EXPECT_EQ(Run({"fit", "models/small.safetensors", "--kind", "io"}).code, 2);
  for (const char* nonsense : {"64MB", "-1", "small", "64 MiB", "99999999999999TiB"}) {
    EXPECT_EQ(Run({"fit", nonsense}).code, 2) << nonsense;
  }
}

TEST(CliFitTest, ASizeIsThatOfABuffer) {
  const DaemonProcess daemon(DaemonSettings{
      .device = "{name: \"host:0\", backend: host, total: 128MiB, weights: 50%, runtime: 50%}"});
  const auto client = Client::Connect({.directory = daemon.directory()});
  ASSERT_TRUE(client.ok()) << client.status();
  const TempDir temp;
  const auto code = [&](const std::string& size, const std::string& kind) {
    return Program({TENURECTL_PATH, "--directory", daemon.directory(), "fit", size, "--kind", kind},
                   temp / "ctl")
        .Wait();
  };
  EXPECT_EQ(code("64MiB", "io"), 0);
  EXPECT_EQ(code("67108865", "activation"), 1);
  EXPECT_EQ(code("0", "activation"), 1);
  EXPECT_EQ(code("1MiB", "nonsense"), 2);

  // And to a program of one's own.
  const auto fits = client->Fit({.bytes = uint64_t{65} << 20, .kind = client::BufferKind::kIo});
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(fits->at(0).verdict, client::FitVerdict::kNever);
  EXPECT_EQ(fits->at(0).capacity_bytes, uint64_t{64} << 20);
}

TEST_F(CliTest, DrawsTheMemoryMapAndKeepsIt) {
  WriteModel(daemon_, "a", 64);
  ASSERT_EQ(Run({"load", "team/a", "models/a.safetensors"}).code, 0);
  const Outcome map = Run({"map"});
  EXPECT_EQ(map.code, 0) << map.err;
  EXPECT_THAT(map.out, HasSubstr("[team/a oooo"));
  EXPECT_THAT(map.out, HasSubstr("\nteam/a@1  idle"));
  EXPECT_THAT(map.out, HasSubstr("\nruntime: 0 B of "));

  const Outcome kept = Run({"--json", "map", "--output", temp_ / "map.json"});
  EXPECT_EQ(kept.code, 0) << kept.err;
  const json read = json::parse(std::ifstream(temp_ / "map.json"));
  EXPECT_EQ(read["devices"][0]["arenas"][0]["regions"][0]["model"], "team/a");
  EXPECT_EQ(read["schema"], 1);

  ASSERT_EQ(Run({"map", "--html", temp_ / "map.html"}).code, 0);
  std::ifstream page(temp_ / "map.html");
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(page), {}), HasSubstr("\"team/a\""));
  EXPECT_EQ(Run({"map", "--format", "torch-snapshot", "--output", temp_ / "map.pickle"}).code, 0);

  // What was kept is drawn without a daemon.
  daemon_.Kill();
  const Outcome again = Run({"map", "--from", temp_ / "map.json"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("[team/a oooo"));
  EXPECT_EQ(Run({"map"}).code, 3);
  EXPECT_EQ(Run({"map", "--from", temp_ / "nothing"}).code, 4);
  EXPECT_EQ(Run({"map", "--format", "svg"}).code, 2);
}

TEST_F(CliTest, TopPrintsOnceWhereThereIsNoTerminal) {
  WriteModel(daemon_, "a", 64);
  ASSERT_EQ(Run({"load", "team/a", "models/a.safetensors"}).code, 0);
  const Outcome top = Run({"top"});
  EXPECT_EQ(top.code, 0) << top.err;
  EXPECT_THAT(top.out, HasSubstr("\n  weights  ["));
  EXPECT_THAT(top.out, HasSubstr("\nteam/a@1"));
  EXPECT_THAT(Run({"top", "--once"}).out, HasSubstr("\nteam/a@1"));
  EXPECT_EQ(json::parse(Run({"--json", "top"}).out)["schema"], 1);
  EXPECT_EQ(Run({"top", "--interval", "soon"}).code, 2);
  EXPECT_THAT(Run({"top", "--help"}).out, HasSubstr("q or Ctrl-C ends"));
}

TEST_F(CliTest, TopLeavesTheTerminalAsItWas) {
  for (const char end : {'q', '\x03'}) {
    int terminal = -1;
    winsize size{.ws_row = 20, .ws_col = 70, .ws_xpixel = 0, .ws_ypixel = 0};
    const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
    ASSERT_GE(child, 0);
    if (child == 0) {
      execl(TENURECTL_PATH, TENURECTL_PATH, "--directory", daemon_.directory().c_str(), "top",
            "--interval", "100ms", nullptr);
      _exit(127);
    }
    const UniqueFd keyboard(terminal);
    termios before{};
    ASSERT_EQ(tcgetattr(terminal, &before), 0);
    std::string shown;
    std::array<char, 4096> piece{};
    const auto read_more = [&] {
      const ssize_t got = read(terminal, piece.data(), piece.size());
      if (got > 0) shown.append(piece.data(), static_cast<size_t>(got));
      return got > 0;
    };
    // The second screen has rates.
    while (shown.find("loads 0.0/s") == std::string::npos && read_more()) {
    }
    EXPECT_THAT(shown, HasSubstr("\033[?1049h"));
    termios during{};
    ASSERT_EQ(tcgetattr(terminal, &during), 0);
    EXPECT_EQ(during.c_lflag & ICANON, 0u);
    ASSERT_EQ(write(terminal, &end, 1), 1);
    while (read_more()) {
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(shown.ends_with("\033[?25h\033[?1049l")) << shown;
    if (tcgetattr(terminal, &during) == 0) {
      EXPECT_EQ(during.c_lflag, before.c_lflag);
    }
  }
}

TEST_F(CliTest, ExitCodesTellTheKindsOfFailureApart) {
  EXPECT_EQ(Run({"nonsense"}).code, 2);
  EXPECT_EQ(Run({"load", "a"}).code, 2);
  EXPECT_EQ(Run({"--timeout", "soon", "models"}).code, 2);
  EXPECT_EQ(Run({"--help"}).code, 0);
  EXPECT_EQ(Run({"--timeout", "200ms", "watch", "nobody"}).code, 5);
  EXPECT_EQ(Run({"health"}).code, 0);
  daemon_.Kill();
  EXPECT_EQ(Run({"models"}).code, 3);
  EXPECT_EQ(Run({"health"}).code, 3);
  EXPECT_EQ(Run({"version"}).code, 3);
}

}  // namespace
}  // namespace tenure
