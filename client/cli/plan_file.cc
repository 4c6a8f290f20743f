#include "client/cli/plan_file.h"

#include "client/cli/files.h"
#include "core/plan/plan_csv.h"
#include "core/plan/plan_trace.h"

namespace tenure::cli {

std::optional<PlanFormat> FormatOf(const std::string& path) {
  if (path.ends_with(".csv")) return PlanFormat::kCsv;
  if (path.ends_with(".jsonl")) return PlanFormat::kTrace;
  if (path.ends_with(".onnx")) return PlanFormat::kOnnx;
  return std::nullopt;
}

absl::StatusOr<PlanInput> ReadPlanFile(const std::string& path, PlanFormat format,
                                       const OnnxSizes& sizes) {
  const absl::StatusOr<std::string> text =
      format == PlanFormat::kOnnx ? TraceOfOnnx(path, sizes) : ReadFile(path);
  if (!text.ok()) return text.status();
  return format == PlanFormat::kCsv ? ParsePlanCsv(*text) : ParsePlanTrace(*text);
}

}  // namespace tenure::cli
