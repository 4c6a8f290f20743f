#include "client/cpp/examples/safetensors_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <system_error>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace tenure::client {
namespace {

constexpr uint64_t kMostHeader = uint64_t{100} << 20;

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) {
    throw std::runtime_error(path + ": " +
                             std::error_code(errno, std::generic_category()).message());
  }
  std::vector<char> prefix(sizeof(uint64_t));
  Read(0, prefix);
  uint64_t length = 0;
  memcpy(&length, prefix.data(), sizeof(length));  // the file is little-endian, as the machine is
  if (length > kMostHeader) throw std::runtime_error(path + ": the header is too long");
  std::vector<char> text(length);
  Read(sizeof(length), text);
  const nlohmann::json header = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!header.is_object()) throw std::runtime_error(path + ": the header is no JSON object");

  const uint64_t payload = sizeof(length) + length;
  try {
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const auto& offsets = entry.at("data_offsets");
      const auto begin = offsets.at(0).get<uint64_t>();
      const auto end = offsets.at(1).get<uint64_t>();
      if (end < begin) {
        throw std::runtime_error(std::string(path).append(": a tensor ends before it begins: ") +
                                 name);
      }
      tensors_.push_back({name, entry.at("dtype").get<std::string>(),
                          entry.at("shape").get<std::vector<uint64_t>>(), payload + begin,
                          end - begin});
    }
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ >= 0) close(fd_);
}

void SafetensorsFile::Read(uint64_t offset, std::vector<char>& into) const {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got =
        pread(fd_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::runtime_error(path_ + ": cannot be read to its end");
    done += static_cast<size_t>(got);
  }
}

}  // namespace tenure::client
