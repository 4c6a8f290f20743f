#include "client/cli/plan_onnx.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <spawn.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace tenure::cli {
namespace {

// Exit codes of tenure.onnx_trace.
constexpr int kNoOnnx = 3;
constexpr int kBadModel = 4;

struct Outcome {
  int code = 0;  // -1 if a signal ended it
  std::string out;
  std::string err;
};

std::string Contents(const UniqueFd& file) {
  std::string contents;
  std::array<char, 65536> piece{};
  ssize_t got = 0;
  while ((got = pread(file.get(), piece.data(), piece.size(),
                      static_cast<off_t>(contents.size()))) > 0) {
    contents.append(piece.data(), static_cast<size_t>(got));
  }
  return contents;
}

// Runs a program of the PATH to its end. Standard input is ours.
absl::StatusOr<Outcome> RunToEnd(std::vector<std::string> arguments) {
  // Files of memory, so that neither stream can fill up.
  const UniqueFd out(memfd_create("out", MFD_CLOEXEC));
  const UniqueFd err(memfd_create("err", MFD_CLOEXEC));
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.get(), STDERR_FILENO);
  pid_t child = -1;
  const int error = posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::FailedPreconditionError("cannot run " + arguments[0] + ": " +
                                         std::strerror(error));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return Outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, Contents(out), Contents(err)};
}

std::string LastLine(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

}  // namespace

absl::StatusOr<std::string> TraceOfOnnx(const std::string& path, const OnnxSizes& sizes) {
  std::vector<std::string> arguments = {"python3", "-m", "tenure.onnx_trace"};
  for (const std::string& dim : sizes.dims) arguments.push_back("--dim=" + dim);
  if (sizes.batch.has_value()) arguments.push_back("--batch=" + std::to_string(*sizes.batch));
  arguments.insert(arguments.end(), {"--", path});
  absl::StatusOr<Outcome> outcome = RunToEnd(std::move(arguments));
  if (!outcome.ok()) {
    return absl::FailedPreconditionError("an ONNX file takes Python to read; " +
                                         std::string(outcome.status().message()));
  }
  if (outcome->code == 0) return std::move(outcome->out);
  const std::string said = LastLine(outcome->err);
  if (outcome->code == kBadModel) return Error(Reason::kInvalidPlanInput, said);
  if (outcome->code == kNoOnnx) return absl::FailedPreconditionError(said);
  return absl::FailedPreconditionError(
      "an ONNX file takes the Python package `tenure` (pip install 'client/python[onnx]') to read; "
      "python3 says: " +
      said);
}

}  // namespace tenure::cli
