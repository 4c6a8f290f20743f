#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/wanted_model.h"

namespace tenure {

// The file that tells the next daemon which models are pinned: YAML, a list `models` as in the
// configuration. It is replaced as a whole, so that a daemon killed at any moment leaves the old or
// the new one. Thread-compatible.
class PinFile {
 public:
  explicit PinFile(std::string path) : path_(std::move(path)) {}

  // Empty if there is no file. BACKEND, naming the cause, for one that cannot be read;
  // INVALID_REQUEST, naming the fault, for one that nobody wrote so.
  StatusOr<std::vector<WantedModel>> Read() const;
  // BACKEND, naming the cause; the file is as it was then. Does nothing if that is what was written
  // last.
  Status Write(const std::vector<WantedModel>& models);

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  std::string written_;
};

}  // namespace tenure
