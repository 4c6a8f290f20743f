#include "client/cli/files.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

namespace tenure::cli {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError("cannot read " + path + ": " + std::strerror(errno));
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  // Such as a directory, which can be opened.
  if (file.bad()) return absl::NotFoundError("cannot read " + path + ": " + std::strerror(errno));
  return bytes;
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnknownError("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace tenure::cli
