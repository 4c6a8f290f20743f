#include "tests/fuzz/memory_files.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "tests/support/safetensors_writer.h"

namespace tenure {
namespace {

constexpr std::string_view kLink = "-> ";
constexpr std::string_view kSuffix = ".safetensors";
constexpr int kMostLinks = 8;
constexpr size_t kMostName = 256;

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// The name in a line `-- NAME --`, or nothing if the line is none or a directory has no such name.
std::string_view NameIn(std::string_view line) {
  const bool names = line.size() > 6 && line.size() < kMostName && line.starts_with("-- ") &&
                     line.ends_with(" --") && IsPrintable(line);
  if (!names) return {};
  const std::string_view name = line.substr(3, line.size() - 6);
  return name.find('/') == std::string_view::npos && name != "." && name != ".." ? name : "";
}

Status NoSuchFile(const std::string& path) {
  return Error(Reason::kFileNotFound, absl::StrCat("no such file: ", path), {{"path", path}});
}

}  // namespace

MemoryFile::MemoryFile(std::string path, std::string content, Bytes size)
    : path_(std::move(path)), content_(std::move(content)), size_(size) {
  TENURE_CHECK(size_ >= Bytes(content_.size()));
}

StatusOr<FileStat> MemoryFile::Stat() const { return FileStat{.size = size_}; }

Status MemoryFile::ReadAt(Bytes offset, std::span<std::byte> into) const {
  // Nothing that reads checkpoints may ask for what the file does not have.
  TENURE_CHECK(offset <= size_ && Bytes(into.size()) <= size_ - offset);
  const auto content = std::as_bytes(std::span(content_));
  const size_t begin = std::min(content.size(), static_cast<size_t>(offset.count()));
  const size_t length = std::min(into.size(), content.size() - begin);
  std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(begin), length, into.begin());
  std::fill(into.begin() + static_cast<std::ptrdiff_t>(length), into.end(), std::byte{0});
  return absl::OkStatus();
}

MemoryFiles::MemoryFiles(std::string_view text) {
  std::string* content = nullptr;
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size() - 1) + 1;
    std::string_view line = text.substr(0, length);
    text.remove_prefix(length);
    const bool has_end = line.ends_with('\n');
    const std::string_view name = NameIn(line.substr(0, line.size() - (has_end ? 1 : 0)));
    if (!name.empty()) {
      content = &files_[std::string(name)];
    } else if (content != nullptr) {
      content->append(line);
    }
  }
}

std::string MemoryFiles::Target(std::string name) const {
  for (int links = 0; links < kMostLinks; ++links) {
    const auto file = files_.find(name);
    if (file == files_.end() || !file->second.starts_with(kLink)) return name;
    name = file->second.substr(kLink.size());
    if (name.ends_with('\n')) name.pop_back();
  }
  return name;
}

const std::string* MemoryFiles::Find(const std::string& name) const {
  const auto file = files_.find(Target(name));
  return file == files_.end() || file->second.starts_with(kLink) ? nullptr : &file->second;
}

StatusOr<std::unique_ptr<ReadableFile>> MemoryFiles::Open(const std::string& path,
                                                          const std::string& root) {
  const std::string directory = absl::StrCat(kDirectory, "/");
  // Whoever asks for anything but an entry of the directory was led there by what a file said.
  TENURE_CHECK(path.starts_with(directory) && path.starts_with(root + "/"));
  const std::string name = path.substr(directory.size());
  TENURE_CHECK(name.find('/') == std::string::npos && name != "." && name != "..");
  const std::string* content = Find(name);
  if (content == nullptr) return NoSuchFile(path);
  const std::string target = directory + Target(name);
  if (!target.ends_with(kSuffix) || !content->starts_with('{')) {
    return std::make_unique<MemoryFile>(target, *content, Bytes(content->size()));
  }
  std::string whole = RawSafetensors(*content, "");
  const Bytes size = Bytes(whole.size()) + PayloadAskedFor(*content);
  return std::make_unique<MemoryFile>(target, std::move(whole), size);
}

FileLayer::Kind MemoryFiles::KindOf(const std::string& path) {
  return path == kDirectory ? Kind::kDirectory : Kind::kMissing;
}

StatusOr<std::vector<std::string>> MemoryFiles::List(const std::string& directory) {
  if (directory != kDirectory) return NoSuchFile(directory);
  std::vector<std::string> names;
  for (const auto& [name, content] : files_) names.push_back(name);
  return names;
}

Bytes PayloadAskedFor(std::string_view header) {
  constexpr uint64_t kLimit = uint64_t{1} << 62;
  uint64_t greatest = 0;
  for (size_t comma = header.find(','); comma != std::string_view::npos;
       comma = header.find(',', comma + 1)) {
    const size_t begin = header.find_first_not_of(' ', comma + 1);
    if (begin == std::string_view::npos) break;
    uint64_t number = 0;
    size_t end = begin;
    for (; end < header.size() && header[end] >= '0' && header[end] <= '9'; ++end) {
      const auto digit = static_cast<uint64_t>(header[end] - '0');
      number = number > kLimit / 10 ? kLimit : number * 10 + digit;
    }
    const bool ends_array = end > begin && end < header.size() && header[end] == ']';
    if (ends_array && number < kLimit) greatest = std::max(greatest, number);
  }
  return Bytes(greatest);
}

}  // namespace tenure
