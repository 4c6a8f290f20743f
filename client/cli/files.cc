#include "client/cli/files.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

namespace tenure::cli {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  std::string bytes;
  std::array<char, 65536> piece{};
  while (in.read(piece.data(), piece.size()), in.gcount() > 0) {
    bytes.append(piece.data(), static_cast<size_t>(in.gcount()));
  }
  // A directory can be opened and not be read.
  if (!in.bad() && in.eof()) return bytes;
  return absl::NotFoundError("cannot read " + path + ": " + std::strerror(errno));
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnknownError("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace tenure::cli
