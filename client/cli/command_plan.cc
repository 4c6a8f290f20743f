#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cli/failure.h"
#include "client/cli/files.h"
#include "client/cli/format.h"
#include "client/cli/options.h"
#include "client/cli/plan_file.h"
#include "client/cli/plan_remedy.h"
#include "client/cli/plan_svg.h"
#include "client/cli/table.h"
#include "core/base/clock.h"
#include "core/plan/make_plan.h"
#include "core/plan/validate_plan.h"

namespace tenure::cli {
namespace {

constexpr char kHelp[] =
    "FILE is one of\n"
    "  .csv    a table with the columns id, lower, upper and size: a buffer is in use during\n"
    "          steps [lower, upper), or for ever if upper is empty. `end` instead of `upper` is\n"
    "          the last step itself. Optional: alignment, gaps (`4-6 9-12`), offset (fixed),\n"
    "          alias (a name: views of one storage), output (1: read after the end).\n"
    "  .jsonl  what a run's operators read and write, in their order, an object a line:\n"
    "            {\"tensor\": \"x\", \"size\": 4096}\n"
    "            {\"op\": \"matmul\", \"inputs\": [\"x\"], \"outputs\": [{\"name\": \"y\", "
    "\"size\": 64}]}\n"
    "            {\"op\": \"reshape\", \"inputs\": [\"y\"], \"outputs\": [{\"name\": \"z\", "
    "\"alias_of\": "
    "\"y\"}]}\n"
    "            {\"outputs\": [\"z\"]}\n"
    "  .onnx   a model; takes the Python packages `tenure` and `onnx` to read.\n"
    "\n"
    "Examples:\n"
    "  tenurectl plan buffers.csv --capacity 10MiB --svg plan.svg\n"
    "  tenurectl plan model.onnx --batch 8 --dim sequence=128\n"
    "  tenurectl --json plan - --format trace < run.jsonl | jq .offsets\n"
    "Needs no daemon. Ends with 6 if the plan is higher than the capacity, and tells the step at\n"
    "which too much is alive, and which buffers would have to start later for a plan to fit.\n";

struct PlanOptions {
  std::string path;
  std::string format;
  std::string capacity;
  std::string budget;
  std::string svg;
  OnnxSizes sizes;

  PlanFormat planned_format = PlanFormat::kCsv;
  PlanLimits limits;
};

struct MadePlan {
  PlanInput input;
  PlanProblem problem;
  Plan plan;
  std::vector<Bytes> offsets;        // by buffer
  std::optional<PlanRemedy> remedy;  // if it is higher than the capacity

  double Ratio() const {
    return plan.lower_bound.zero() ? 1
                                   : static_cast<double>(plan.height.count()) /
                                         static_cast<double>(plan.lower_bound.count());
  }
  std::string RatioText() const {
    std::array<char, 32> text{};
    snprintf(text.data(), text.size(), "%.3f", Ratio());
    return text.data();
  }
};

// Reads, plans, and holds the plan against the validator.
absl::StatusOr<MadePlan> Make(const PlanOptions& options) {
  MadePlan made;
  TENURE_ASSIGN_OR_RETURN(made.input,
                          ReadPlanFile(options.path, options.planned_format, options.sizes));
  TENURE_ASSIGN_OR_RETURN(made.problem, MakePlanProblem(made.input));
  const std::optional<Bytes>& capacity = options.limits.capacity;
  PlanLimits limits = options.limits;
  // No time for a lower plan where none can do.
  if (capacity.has_value() && LowerBound(made.problem) > *capacity) limits.budget = Duration{0};
  made.plan = MakePlan(made.problem, limits, SteadyClock());
  made.offsets.reserve(made.input.size());
  for (const uint32_t storage : made.problem.storage_of) {
    made.offsets.push_back(made.plan.offsets[storage]);
  }
  TENURE_RETURN_IF_ERROR(ValidatePlan(made.input, made.offsets, made.plan.height));
  if (capacity.has_value() && made.plan.height > *capacity) {
    made.remedy = FindRemedy(made.input, made.problem, *capacity, options.limits);
  }
  return made;
}

// What the capacity makes of the plan.
std::string Verdict(const Plan& plan, Bytes capacity) {
  if (plan.height <= capacity) return "fits";
  const std::string lacks = FormatBytes((plan.height - capacity).count()) + " too little";
  return plan.lower_bound > capacity ? lacks + ", whatever the plan" : lacks + " for this plan";
}

void Print(const MadePlan& made, const std::optional<Bytes>& capacity) {
  const Plan& plan = made.plan;
  uint64_t bytes = 0;
  for (const PlanBuffer& buffer : made.input) bytes += buffer.size.count();
  std::vector<std::pair<std::string, std::string>> fields = {
      {"buffers", std::to_string(made.input.size()) + ", " + FormatBytes(bytes) + " in all"},
      {"height", FormatBytes(plan.height.count())},
      {"lower bound", FormatBytes(plan.lower_bound.count())},
      {"ratio", made.RatioText()},
      {"proven", plan.proven ? "yes, no plan is lower" : "no, a lower one may be there"},
  };
  if (capacity.has_value()) {
    fields.emplace_back("capacity",
                        FormatBytes(capacity->count()) + ", " + Verdict(plan, *capacity));
  }
  if (made.remedy.has_value()) AddRemedy(made.input, made.problem, *made.remedy, fields);
  fields.emplace_back("took", FormatDuration(plan.seconds));
  PrintFields(std::cout, fields);
}

void PrintAsJson(const MadePlan& made, const std::optional<Bytes>& capacity) {
  const Plan& plan = made.plan;
  nlohmann::ordered_json json = {{"buffers", made.input.size()},
                                 {"height", plan.height.count()},
                                 {"lower_bound", plan.lower_bound.count()},
                                 {"ratio", made.Ratio()},
                                 {"proven", plan.proven},
                                 {"seconds", std::chrono::duration<double>(plan.seconds).count()},
                                 {"nodes", plan.nodes}};
  if (capacity.has_value()) {
    json["capacity"] = capacity->count();
    json["fits"] = plan.height <= *capacity;
  }
  if (made.remedy.has_value()) AddRemedy(made.input, made.problem, *made.remedy, json);
  // An object that looks for a key as it is made would take the square of their number.
  nlohmann::json offsets = nlohmann::json::object();
  for (size_t i = 0; i < made.input.size(); ++i) {
    offsets[made.input[i].id] = made.offsets[i].count();
  }
  json["offsets"] = offsets;
  PrintJson(json);
}

absl::Status WriteSvg(const PlanOptions& options, const MadePlan& made) {
  const Plan& plan = made.plan;
  const std::string name = options.path.substr(options.path.rfind('/') + 1);
  PlanPicture picture{.title = name + ": " + std::to_string(made.input.size()) + " buffers in " +
                               FormatBytes(plan.height.count()) + ", " + made.RatioText() +
                               " of the lower bound",
                      .height = plan.height,
                      .lower_bound = plan.lower_bound,
                      .capacity = options.limits.capacity};
  if (picture.capacity.has_value()) {
    picture.title += "; capacity " + FormatBytes(picture.capacity->count()) + ", " +
                     Verdict(plan, *picture.capacity);
  }
  return WriteFile(options.svg, DrawPlan(made.input, made.offsets, picture));
}

int FailPlan(const Globals& globals, const absl::Status& status) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  if (!detail.has_value()) return Fail(globals, status);
  return Fail(globals, status, detail->reason, {detail->values.begin(), detail->values.end()});
}

int Run(const Globals& globals, const PlanOptions& options) {
  const absl::StatusOr<MadePlan> made = Make(options);
  if (!made.ok()) return FailPlan(globals, made.status());
  if (!options.svg.empty()) {
    const absl::Status written = WriteSvg(options, *made);
    if (!written.ok()) return Fail(globals, written);
    std::cerr << "wrote " << options.svg << '\n';
  }
  const std::optional<Bytes>& capacity = options.limits.capacity;
  if (globals.json) {
    PrintAsJson(*made, capacity);
  } else {
    Print(*made, capacity);
  }
  return capacity.has_value() && made->plan.height > *capacity ? kTooHigh : kOk;
}

// Makes sense of what was typed, or throws.
void Settle(PlanOptions& options) {
  const std::map<std::string, PlanFormat> formats = {
      {"csv", PlanFormat::kCsv}, {"trace", PlanFormat::kTrace}, {"onnx", PlanFormat::kOnnx}};
  const std::optional<PlanFormat> format =
      options.format.empty() ? FormatOf(options.path) : formats.at(options.format);
  if (!format.has_value()) {
    throw CLI::ValidationError("--format", "say what this is, csv, trace or onnx: " + options.path);
  }
  options.planned_format = *format;
  if (!options.capacity.empty()) options.limits.capacity = Bytes(*ParseSize(options.capacity));
  if (!options.budget.empty()) options.limits.budget = *ParseDuration(options.budget);
}

}  // namespace

void AddPlan(CLI::App& app, const Globals& globals, Action& action) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Lay buffers with known lifespans into as little memory as can be; no daemon needed");
  command->footer(kHelp);
  command->add_option("file", options->path, "A .csv, .jsonl or .onnx file; - is standard input")
      ->required();
  command->add_option("--format", options->format, "csv, trace or onnx [by the file's ending]")
      ->check(CLI::IsMember({"csv", "trace", "onnx"}));
  command
      ->add_option("--capacity", options->capacity,
                   "Such as 10MiB: a plan no higher than this is good enough")
      ->check([](const std::string& text) {
        return ParseSize(text) ? std::string() : "no size such as 10MiB: " + text;
      });
  command->add_option("--budget", options->budget, "Look for a lower plan for so long [100ms]")
      ->check(CheckDuration);
  command->add_option("--svg", options->svg, "Draw the plan into a file")->type_name("FILE");
  command
      ->add_option("--dim", options->sizes.dims,
                   "NAME=N: of an ONNX model, a dimension that it leaves open")
      ->allow_extra_args(false);
  command->add_option("--batch", options->sizes.batch,
                      "Of an ONNX model, the first dimension of each input that leaves it open");
  command->callback([&globals, &action, options] {
    Settle(*options);
    action = [&globals, options] { return Run(globals, *options); };
  });
}

}  // namespace tenure::cli
