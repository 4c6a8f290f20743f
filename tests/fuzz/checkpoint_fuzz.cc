// The input is a directory of files as MemoryFiles reads it: an index and shards, or one file.

#include "core/base/check.h"
#include "core/checkpoint/checkpoint.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/invariants.h"
#include "tests/fuzz/memory_files.h"

namespace tenure {
namespace {

constexpr char kIndexName[] = "model.safetensors.index.json";

}  // namespace

bool AcceptsInput(std::string_view input) {
  MemoryFiles files(input);
  const StatusOr<OpenCheckpoint> checkpoint = OpenModel(files, {{"models", "/models"}}, "models/m");
  if (!checkpoint.ok()) {
    CheckRefusal(checkpoint.status(), MemoryFiles::kDirectory);
    return false;
  }
  const std::string* index = files.Find(kIndexName);
  TENURE_CHECK(index == nullptr ? checkpoint->index.empty() : checkpoint->index == *index);
  TENURE_CHECK(CheckUnchanged(*checkpoint).ok());
  const StatusOr<std::vector<TensorSource>> tensors = ParseTensors(*checkpoint);
  if (!tensors.ok()) {
    CheckRefusal(tensors.status(), MemoryFiles::kDirectory);
    return false;
  }
  CheckTensors(*checkpoint, *tensors);
  if (index != nullptr) CheckWeightMap(*index, *tensors);
  return true;
}

}  // namespace tenure
