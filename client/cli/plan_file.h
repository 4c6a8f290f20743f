#pragma once

#include <absl/status/statusor.h>
#include <optional>
#include <string>

#include "client/cli/plan_onnx.h"
#include "core/plan/plan_input.h"

namespace tenure::cli {

enum class PlanFormat { kCsv, kTrace, kOnnx };

// What the ending of a name says: .csv, .jsonl or .onnx. nullopt for any other.
std::optional<PlanFormat> FormatOf(const std::string& path);

// The buffers that a file tells of; "-" is standard input. `sizes` are for ONNX.
absl::StatusOr<PlanInput> ReadPlanFile(const std::string& path, PlanFormat format,
                                       const OnnxSizes& sizes);

}  // namespace tenure::cli
