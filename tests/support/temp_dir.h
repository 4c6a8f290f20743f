#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <stdlib.h>
#include <string>
#include <string_view>
#include <system_error>

namespace tenure {

// A directory of its own for one test, removed with all that is in it. Thread-compatible.
class TempDir {
 public:
  TempDir() : TempDir(std::filesystem::temp_directory_path()) {}
  explicit TempDir(const std::filesystem::path& parent) {
    std::string name = (parent / "tenure-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed: " + name);
    path_ = std::filesystem::canonical(name).string();
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  // Canonical: absolute, without symbolic links.
  const std::string& path() const { return path_; }
  // The path of `name` in this directory; it need not exist.
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Makes `name`, and the directories on the way to it, and returns its path.
  std::string MakeDir(std::string_view name) const {
    std::filesystem::create_directories(*this / name);
    return *this / name;
  }
  // Writes `content` to the file `name`, makes the directories on the way to it, and returns its
  // path.
  std::string WriteFile(std::string_view name, std::string_view content) const {
    std::string file = *this / name;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!out.flush()) throw std::runtime_error("cannot write " + file);
    return file;
  }

 private:
  std::string path_;
};

}  // namespace tenure
