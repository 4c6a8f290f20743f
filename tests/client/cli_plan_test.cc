// tenurectl plan, which needs no daemon.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/client/program.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kThree[] =
    "id,lower,upper,size\n"
    "A,0,3,4194304\n"
    "B,1,4,6291456\n"
    "C,3,5,4194304\n";

class CliPlanTest : public ::testing::Test {
 protected:
  struct Outcome {
    int code = 0;
    std::string out;
    std::string err;
  };

  // With no daemon where it would be looked for.
  Outcome Run(std::vector<std::string> arguments) {
    std::vector<std::string> all = {TENURECTL_PATH, "--directory", temp_ / "nowhere"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Program program(std::move(all), temp_ / "ctl");
    Outcome outcome;
    outcome.code = program.Wait();
    outcome.out = program.Out();
    outcome.err = program.Err();
    return outcome;
  }

  json PlanOf(const std::string& path, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"--json", "plan", path});
    const Outcome outcome = Run(std::move(options));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(temp_ / name) << text;
    return temp_ / name;
  }

  const TempDir temp_;
};

TEST_F(CliPlanTest, TellsHeightBoundAndWhetherItFits) {
  const std::string path = Write("three.csv", kThree);
  const Outcome plan = Run({"plan", path});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("buffers      3, 14 MiB in all\n"
                                  "height       10 MiB\n"
                                  "lower bound  10 MiB\n"
                                  "ratio        1.000\n"
                                  "proven       yes, no plan is lower\n"
                                  "took         "));
  const Outcome fits = Run({"plan", path, "--capacity", "10MiB", "--budget", "1s"});
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_THAT(fits.out, HasSubstr("\ncapacity     10 MiB, fits\n"));
  const Outcome high = Run({"plan", path, "--capacity", "8MiB"});
  EXPECT_EQ(high.code, 6);
  EXPECT_THAT(high.out, HasSubstr("\ncapacity      8 MiB, 2 MiB too little, whatever the plan\n"));
  EXPECT_EQ(high.err, "");
}

// A lives to 5 now, so that all three are alive at step 3.
constexpr char kLonger[] = "id,lower,upper,size\nA,0,5,4194304\nB,1,4,6291456\nC,3,5,4194304\n";

TEST_F(CliPlanTest, TellsWhatIsAliveWhereACapacityIsTooLittleAndWhatWouldFit) {
  const Outcome high = Run({"plan", Write("longer.csv", kLonger), "--capacity", "10MiB"});
  EXPECT_EQ(high.code, 6);
  EXPECT_THAT(high.out, HasSubstr("\nheight        14 MiB\n"));
  EXPECT_THAT(high.out, HasSubstr("\nat step 3     14 MiB are alive: A, B, C\n"
                                  "later starts  C at 4 would fit, 1 later in all, the least that "
                                  "helps\n"));
}

TEST_F(CliPlanTest, PrintsTheProofAndTheRemedyAsJson) {
  const Outcome high = Run({"--json", "plan", Write("longer.csv", kLonger), "--capacity", "10MiB"});
  EXPECT_EQ(high.code, 6);
  const json plan = json::parse(high.out);
  EXPECT_EQ(plan["fits"], false);
  EXPECT_EQ(plan["shortfall"],
            json({{"step", 3}, {"needed", 14680064}, {"buffers", {"A", "B", "C"}}}));
  EXPECT_EQ(plan["late_starts"],
            json({{"delay", 1}, {"proven", true}, {"starts", {{{"id", "C"}, {"lower", 4}}}}}));
}

TEST_F(CliPlanTest, SaysSoIfNoLaterStartHelps) {
  const Outcome high = Run({"plan", Write("longer.csv", kLonger), "--capacity", "5MiB"});
  EXPECT_EQ(high.code, 6);
  EXPECT_THAT(high.out, HasSubstr("\nlater starts  none were found that help\n"));
}

TEST_F(CliPlanTest, PrintsJsonWithTheOffsetOfEachBuffer) {
  const json plan = PlanOf(Write("three.csv", kThree), {"--capacity", "12MiB"});
  EXPECT_EQ(plan["buffers"], 3);
  EXPECT_EQ(plan["height"], 10485760);
  EXPECT_EQ(plan["lower_bound"], 10485760);
  EXPECT_EQ(plan["ratio"], 1.0);
  EXPECT_EQ(plan["proven"], true);
  EXPECT_GT(plan["seconds"].get<double>(), 0);
  EXPECT_EQ(plan["capacity"], 12582912);
  EXPECT_EQ(plan["fits"], true);
  // A and C are apart in time, B beside both.
  const json& offsets = plan["offsets"];
  EXPECT_EQ(offsets.size(), 3u);
  EXPECT_TRUE(offsets["B"] == 0 ? offsets["A"] >= 6291456 && offsets["C"] >= 6291456
                                : offsets["A"] == 0 && offsets["C"] == 0)
      << offsets;
}

TEST_F(CliPlanTest, NothingIsPlannedPerfectly) {
  const json plan = PlanOf(Write("none.csv", "id,lower,upper,size\n"), {"--svg", temp_ / "n.svg"});
  EXPECT_EQ(plan["buffers"], 0);
  EXPECT_EQ(plan["height"], 0);
  EXPECT_EQ(plan["ratio"], 1.0);
  EXPECT_EQ(plan["proven"], true);
  EXPECT_EQ(plan["offsets"], json::object());
}

TEST_F(CliPlanTest, ReachesTheOptimumOfSmallInstances) {
  int plans = 0;
  for (const auto& file : std::filesystem::directory_iterator(TENURE_SMALL_INSTANCES)) {
    if (file.path().extension() != ".csv") continue;
    // Named like a.6.csv.
    const std::string optimum = file.path().stem().extension().string().substr(1);
    const json plan = PlanOf(file.path(), {"--budget", "2s"});
    EXPECT_EQ(std::to_string(plan["height"].get<int>()), optimum) << file.path();
    ++plans;
  }
  EXPECT_EQ(plans, 7);
}

TEST_F(CliPlanTest, ATraceIsReadByItsEndingOrByItsFormat) {
  const std::string trace = R"({"tensor": "x", "size": 4096}
{"op": "matmul", "inputs": ["x"], "outputs": [{"name": "y", "size": 64}]}
{"op": "reshape", "inputs": ["y"], "outputs": [{"name": "z", "alias_of": "y"}]}
{"op": "relu", "inputs": ["z"], "outputs": [{"name": "w", "size": 64}]}
{"outputs": ["w"]}
)";
  const json plan = PlanOf(Write("run.jsonl", trace));
  EXPECT_EQ(plan["height"], 4160);
  EXPECT_EQ(plan["offsets"]["z"], plan["offsets"]["y"]);
  const std::string other = Write("run.log", trace);
  EXPECT_EQ(PlanOf(other, {"--format", "trace"})["height"], 4160);
  const Outcome unknown = Run({"plan", other});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("csv, trace or onnx"));
  EXPECT_EQ(Run({"plan", other, "--format", "xml"}).code, 2);
}

TEST_F(CliPlanTest, ADashIsStandardInput) {
  const std::string path = Write("three.csv", kThree);
  Program shell(
      {"/bin/sh", "-c", "exec \"$0\" --json plan - --format csv < \"$1\"", TENURECTL_PATH, path},
      temp_ / "ctl");
  EXPECT_EQ(shell.Wait(), 0) << shell.Err();
  EXPECT_EQ(json::parse(shell.Out())["height"], 10485760);
  EXPECT_EQ(Run({"plan", "-"}).code, 2);
}

TEST_F(CliPlanTest, ABadFileIsRefusedWithItsLineAndWhatHelps) {
  const std::string path = Write("bad.csv", std::string(kThree) + "D,3,2,1\n");
  const Outcome bad = Run({"plan", path});
  EXPECT_EQ(bad.code, 1);
  EXPECT_EQ(bad.out, "");
  EXPECT_THAT(bad.err, HasSubstr("'D'; line: 5\n"));
  EXPECT_THAT(bad.err, HasSubstr("reason: INVALID_PLAN_INPUT\n"));
  EXPECT_THAT(bad.err, HasSubstr("fault: inverted_lifespan\n"));
  EXPECT_THAT(bad.err, HasSubstr("hint: `tenurectl plan --help`"));
  const json error = json::parse(Run({"--json", "plan", path}).err)["error"];
  EXPECT_EQ(error["values"]["line"], "5");
  EXPECT_EQ(error["values"]["buffer"], "D");

  EXPECT_EQ(Run({"plan", temp_ / "none.csv"}).code, 4);
  EXPECT_EQ(Run({"plan", temp_ / "", "--format", "csv"}).code, 4);
  EXPECT_EQ(Run({"plan"}).code, 2);
  EXPECT_EQ(Run({"plan", path, "--capacity", "10MB"}).code, 2);
  EXPECT_EQ(Run({"plan", path, "--budget", "long"}).code, 2);
  EXPECT_EQ(Run({"plan", Write("three.csv", kThree), "--svg", temp_ / "no/p.svg"}).code, 1);
}

// Counts the rectangles of a picture, if it is XML, and their titles.
constexpr char kCount[] =
    "import sys, xml.etree.ElementTree as tree\n"
    "svg = '{http://www.w3.org/2000/svg}'\n"
    "rects = tree.parse(sys.argv[1]).getroot().findall('.//' + svg + 'rect')\n"
    "print(len(rects), len({rect.find(svg + 'title').text for rect in rects}))\n";

TEST_F(CliPlanTest, DrawsOneRectangleForEachBuffer) {
  const auto drawn = [&](const std::string& path) {
    const Outcome plan = Run({"plan", path, "--svg", temp_ / "plan.svg", "--budget", "0"});
    EXPECT_EQ(plan.code, 0) << plan.err;
    EXPECT_EQ(plan.err, "wrote " + (temp_ / "plan.svg") + "\n");
    Program python({PYTHON_PATH, "-c", kCount, temp_ / "plan.svg"}, temp_ / "python");
    EXPECT_EQ(python.Wait(), 0) << python.Err();
    return python.Out();
  };
  EXPECT_EQ(drawn(Write("three.csv", kThree)), "3 3\n");
  EXPECT_EQ(drawn(Write("odd.csv", "id,lower,upper,size\n<&>\"',0,,4\n\xFF\xC0\x80,0,3,4\n")),
            "2 2\n");
  std::string many = "id,lower,upper,size\n";
  for (int i = 0; i < 20'000; ++i) {
    many += std::to_string(i) + "," + std::to_string(i) + "," + std::to_string(i + 3) + ",512\n";
  }
  EXPECT_EQ(drawn(Write("many.csv", many)), "20000 20000\n");
}

class CliPlanOnnxTest : public CliPlanTest {
 protected:
  CliPlanOnnxTest() { std::filesystem::create_directory(temp_ / "bin"); }

  // Has tenurectl find this as the only program.
  Outcome RunWithPython(const std::string& script, const std::vector<std::string>& arguments) {
    if (!script.empty()) {
      const std::string python = Write("bin/python3", "#!/bin/sh\n" + script);
      std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    }
    const std::string path = getenv("PATH");
    setenv("PATH", (temp_ / "bin").c_str(), 1);
    Outcome outcome = Run(arguments);
    setenv("PATH", path.c_str(), 1);
    return outcome;
  }
};

TEST_F(CliPlanOnnxTest, GivesTheModelToThePythonPackageWithoutAShell) {
  const std::string model = temp_ / "a b;$(reboot).onnx";
  const Outcome plan = RunWithPython(
      "printf '%s\\n' \"$@\" >&2\n"
      "echo '{\"op\": \"a\", \"outputs\": [{\"name\": \"'\"$#\"'\", \"size\": 64}]}'\n",
      {"--json", "plan", model, "--dim", "n=2", "--batch", "8", "--dim", "m=3"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  // -m tenure.onnx_trace --dim=n=2 --dim=m=3 --batch=8 -- MODEL
  EXPECT_EQ(json::parse(plan.out)["offsets"], json({{"7", 0}}));
  const Outcome refused =
      RunWithPython("for last; do :; done; echo \"$last: no\" >&2; exit 4", {"plan", model});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("tenurectl: " + model + ": no\n  reason: INVALID_PLAN_INPUT"));
}

TEST_F(CliPlanOnnxTest, SaysWhatIsMissing) {
  const Outcome no_python = RunWithPython("", {"plan", "m.onnx"});
  EXPECT_EQ(no_python.code, 1);
  EXPECT_THAT(no_python.err, HasSubstr("takes Python to read; cannot run python3: No such file"));
  const Outcome no_package =
      RunWithPython("echo 'python3: No module named tenure' >&2; exit 1", {"plan", "m.onnx"});
  EXPECT_EQ(no_package.code, 1);
  EXPECT_THAT(no_package.err, HasSubstr("pip install 'client/python[onnx]'"));
  EXPECT_THAT(no_package.err, HasSubstr("No module named tenure\n"));
  const Outcome no_onnx = RunWithPython("echo 'takes onnx' >&2; exit 3", {"plan", "m.onnx"});
  EXPECT_EQ(no_onnx.code, 1);
  EXPECT_EQ(no_onnx.err, "tenurectl: takes onnx\n");
  EXPECT_EQ(RunWithPython("kill -9 $$", {"plan", "m.onnx"}).code, 1);
}

TEST_F(CliPlanTest, AMistypedCommandIsNamedWithTheNearestOne) {
  const Outcome mistyped = Run({"plam", "x.csv", "--capacity", "10MiB"});
  EXPECT_EQ(mistyped.code, 2);
  EXPECT_THAT(mistyped.err, HasSubstr("There is no command `plam`. Did you mean `plan`?\n"));
  EXPECT_THAT(Run({"--json", "modles"}).err, HasSubstr("`modles`. Did you mean `models`?"));
  EXPECT_THAT(Run({"frobnicate"}).err, HasSubstr("There is no command `frobnicate`.\n"));
  EXPECT_THAT(Run({}).err, HasSubstr("A subcommand is required"));
  EXPECT_EQ(Run({"plan", "--help"}).code, 0);
}

}  // namespace
}  // namespace tenure
