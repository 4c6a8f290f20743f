#pragma once

#include <absl/status/statusor.h>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenure::cli {

// What an ONNX model leaves open.
struct OnnxSizes {
  std::vector<std::string> dims;  // NAME=N
  std::optional<uint64_t> batch;
};

// The trace of the ONNX model at `path` ("-" for standard input), for ParsePlanTrace: what
// `python3 -m tenure.onnx_trace` makes of it. No shell sees the path. INVALID_PLAN_INPUT for a
// model that no plan can be made for.
absl::StatusOr<std::string> TraceOfOnnx(const std::string& path, const OnnxSizes& sizes);

}  // namespace tenure::cli
