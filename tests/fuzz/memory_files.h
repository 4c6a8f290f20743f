#pragma once

// Files out of a fuzzer's input, so that no file system is needed to try what a file may hold.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"

namespace tenure {

// A file whose bytes from `content` on are a hole up to `size`, as in a sparse file: it may be of
// any size and takes no memory for it.
class MemoryFile final : public ReadableFile {
 public:
  // REQUIRES: `size` is not less than the content's.
  MemoryFile(std::string path, std::string content, Bytes size);

  const std::string& path() const override { return path_; }
  StatusOr<FileStat> Stat() const override;
  Status ReadAt(Bytes offset, std::span<std::byte> into) const override;

 private:
  const std::string path_;
  const std::string content_;
  const Bytes size_;
};

// One directory, kDirectory, and the files in it, read from a text in which each file begins with
// a line `-- NAME --`:
//
//   -- model.safetensors.index.json --
//   {"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
//   -- 1.safetensors --
//   {"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}
//   -- 2.safetensors --
//   -> 1.safetensors
//
// `->` makes a link. A .safetensors file of which only the header is there gets its length field,
// and a hole as large as the header asks for. Thread-compatible.
class MemoryFiles final : public FileLayer {
 public:
  static constexpr char kDirectory[] = "/models/m";

  explicit MemoryFiles(std::string_view text);

  // The content of a file of that name, links followed; nullptr if there is none.
  const std::string* Find(const std::string& name) const;

  StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path,
                                               const std::string& root) override;
  Kind KindOf(const std::string& path) override;
  StatusOr<std::vector<std::string>> List(const std::string& directory) override;

 private:
  // The name that `name` leads to; the last link if it leads nowhere or in a circle.
  std::string Target(std::string name) const;

  std::map<std::string, std::string> files_;
};

// The payload that `header` asks for, if it is a good one: the greatest number below 2^62 that ends
// an array of several, as the end of a tensor does; 0 if there is none.
Bytes PayloadAskedFor(std::string_view header);

}  // namespace tenure
