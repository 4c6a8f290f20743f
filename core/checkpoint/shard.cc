#include "core/checkpoint/shard.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <algorithm>
#include <array>
#include <span>

#include "core/checkpoint/refusal.h"

namespace tenure {
namespace {

constexpr Bytes kLengthField = Bytes(8);

struct Likeness {
  const char* prefix;  // compared without regard to case
  const char* name;
};

// What is often found under the name of a checkpoint. None of these begins with a header length
// that ReadShard would take.
constexpr std::array<Likeness, 7> kLikenesses = {{
    {"version https://git-lfs", "a Git LFS pointer: fetch the file with `git lfs pull`"},
    {"<!doctype", "a web page (HTML)"},
    {"<html", "a web page (HTML)"},
    {"<?xml", "an XML document"},
    {"{", "JSON text"},
    {"PK\x03\x04", "a zip archive, as PyTorch writes"},
    {"GGUF", "a GGUF file"},
}};

// The cause if the file is no safetensors file: what it looks like, or `otherwise`.
Status RefuseForm(const ReadableFile& file, Bytes size, std::string_view otherwise) {
  std::array<char, 64> start{};
  const size_t length = std::min(start.size(), static_cast<size_t>(size.count()));
  TENURE_RETURN_IF_ERROR(
      file.ReadAt(Bytes(0), std::as_writable_bytes(std::span(start.data(), length))));
  for (const Likeness& likeness : kLikenesses) {
    if (absl::StartsWithIgnoreCase({start.data(), length}, likeness.prefix)) {
      return RefuseFile(absl::StrCat("not a safetensors file but ", likeness.name), file.path());
    }
  }
  return RefuseFile(otherwise, file.path());
}

uint64_t LittleEndian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

}  // namespace

StatusOr<Shard> ReadShard(std::unique_ptr<ReadableFile> file, Bytes header_room) {
  TENURE_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
  if (stat.size.zero()) return RefuseFile("the file is empty", file->path());
  if (stat.size < kLengthField) {
    return RefuseForm(*file, stat.size, "the file is shorter than a safetensors header length");
  }
  std::array<std::byte, kLengthField.count()> length_field{};
  TENURE_RETURN_IF_ERROR(file->ReadAt(Bytes(0), length_field));
  const Bytes length(LittleEndian(length_field));
  if (length.zero()) return RefuseForm(*file, stat.size, "the header has no bytes");
  if (length > kMaxHeader) {
    return RefuseForm(*file, stat.size,
                      absl::StrCat("the header length ", length.count(), " exceeds the limit of ",
                                   kMaxHeader.count(), " bytes"));
  }
  if (length > stat.size - kLengthField) {
    return RefuseForm(*file, stat.size,
                      absl::StrCat("the header length ", length.count(), " exceeds the file's ",
                                   stat.size.count(), " bytes"));
  }
  if (length > header_room) {
    return RefuseFile(absl::StrCat("the headers of all shards together exceed the limit of ",
                                   kMaxHeader.count(), " bytes, at"),
                      file->path());
  }
  std::string header(length.count(), '\0');
  TENURE_RETURN_IF_ERROR(file->ReadAt(kLengthField, std::as_writable_bytes(std::span(header))));
  return Shard{.file = std::move(file),
               .stat = stat,
               .header = std::move(header),
               .payload_begin = kLengthField + length};
}

StatusOr<std::vector<HeaderEntry>> ParseShard(const Shard& shard) {
  StatusOr<std::vector<HeaderEntry>> entries =
      ParseSafetensorsHeader(shard.header, shard.stat.size - shard.payload_begin);
  if (!entries.ok()) return InFile(entries.status(), shard.file->path());
  for (HeaderEntry& entry : *entries) {
    entry.range =
        Range(shard.payload_begin + entry.range.begin(), shard.payload_begin + entry.range.end());
  }
  return entries;
}

}  // namespace tenure
