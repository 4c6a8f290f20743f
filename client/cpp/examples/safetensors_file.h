#pragma once

// A reader of safetensors files that shares nothing with the daemon's, so that one can check the
// other.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace tenure::client {

// One tensor as the file declares it; sizes and offsets are in bytes.
struct FileTensor {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t offset = 0;  // from the file's start
  uint64_t bytes = 0;
};

// An open file. Everything throws std::runtime_error if the file cannot be read or makes no sense.
// Thread-compatible.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::vector<FileTensor>& tensors() const { return tensors_; }
  // Fills `into` from `offset` of the file on.
  void Read(uint64_t offset, std::vector<char>& into) const;

 private:
  const std::string path_;
  const int fd_;
  std::vector<FileTensor> tensors_;
};

}  // namespace tenure::client
