#include "tests/support/safetensors_writer.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/base/check.h"
#include "core/base/digest.h"

namespace tenure {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

Bytes SizeOf(const TensorSpec& spec) {
  const StatusOr<Bytes> size = TensorBytes(spec);
  TENURE_CHECK(size.ok());
  return *size;
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      quoted += escape.data();
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string LengthField(uint64_t length) {
  std::string field;
  for (int shift = 0; shift < 64; shift += 8) field += static_cast<char>(length >> shift & 0xFF);
  return field;
}

class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path) {
    out_.rdbuf()->pubsetbuf(nullptr, 0);
    out_.open(path, std::ios::binary | std::ios::trunc);
    Check();
  }
  void Write(std::string_view bytes) {
    out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    Check();
  }
  void Close() {
    out_.close();
    Check();
  }

 private:
  void Check() const {
    if (!out_) throw std::runtime_error("cannot write " + path_);
  }

  std::string path_;
  std::ofstream out_;
};

std::string ShardName(size_t index, size_t shards) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", index + 1, shards);
  return name.data();
}

}  // namespace

TensorContent::TensorContent(const TensorSpec& spec, uint64_t seed) {
  Digester digester;
  digester.Add(seed);
  digester.Add(spec.name);
  key_ = digester.Finish().low;
  // Sign and mantissa stay random, the exponent says 2^-7.
  switch (spec.dtype) {
    case DType::kBool:
      keep_ = 0x0101010101010101;
      break;
    case DType::kF16:
      keep_ = 0x83FF83FF83FF83FF;
      set_ = 0x2000200020002000;
      break;
    case DType::kBF16:
      keep_ = 0x807F807F807F807F;
      set_ = 0x3C003C003C003C00;
      break;
    case DType::kF32:
    case DType::kC64:
      keep_ = 0x807FFFFF807FFFFF;
      set_ = 0x3C0000003C000000;
      break;
    case DType::kF64:
      keep_ = 0x800FFFFFFFFFFFFF;
      set_ = 0x3F80000000000000;
      break;
    default:
      keep_ = ~uint64_t{0};
      break;
  }
}

// SplitMix64, which reaches its n-th output directly.
uint64_t TensorContent::Word(uint64_t index) const {
  uint64_t z = key_ + (index + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return ((z ^ (z >> 31)) & keep_) | set_;
}

void TensorContent::Fill(Bytes offset, std::span<std::byte> into) const {
  uint64_t index = offset.count() / 8;
  const auto copy = [&into](uint64_t word, size_t skip) {
    const size_t length = std::min(into.size(), sizeof(word) - skip);
    std::memcpy(into.data(), reinterpret_cast<const char*>(&word) + skip, length);
    into = into.subspan(length);
  };
  if (offset.count() % 8 != 0) copy(Word(index++), offset.count() % 8);
  for (; into.size() >= sizeof(uint64_t); into = into.subspan(sizeof(uint64_t))) {
    const uint64_t word = Word(index++);
    std::memcpy(into.data(), &word, sizeof(word));
  }
  if (!into.empty()) copy(Word(index), 0);
}

std::vector<std::byte> ContentOf(const TensorSpec& spec, uint64_t seed) {
  std::vector<std::byte> bytes(SizeOf(spec).count());
  TensorContent(spec, seed).Fill(Bytes(0), bytes);
  return bytes;
}

std::string SafetensorsHeader(const std::vector<TensorSpec>& specs) {
  std::string header = "{";
  Bytes end;
  for (const TensorSpec& spec : specs) {
    const Bytes begin = end;
    end += SizeOf(spec);
    absl::StrAppend(&header, header.size() > 1 ? "," : "", Quoted(spec.name), ":{\"dtype\":\"",
                    std::string(DTypeName(spec.dtype)), "\",\"shape\":[");
    for (size_t i = 0; i < spec.shape.size(); ++i) {
      absl::StrAppend(&header, i > 0 ? "," : "", spec.shape[i]);
    }
    absl::StrAppend(&header, "],\"data_offsets\":[", begin.count(), ",", end.count(), "]}");
  }
  return header + "}";
}

std::string RawSafetensors(std::string_view header, std::string_view payload) {
  return LengthField(header.size()).append(header).append(payload);
}

void WriteSafetensors(const std::string& path, const std::vector<TensorSpec>& specs,
                      uint64_t seed) {
  std::string header = SafetensorsHeader(specs);
  header.resize((header.size() + 7) / 8 * 8, ' ');

  OutputFile out(path);
  out.Write(RawSafetensors(header, ""));
  std::string piece(kPieceBytes, '\0');
  for (const TensorSpec& spec : specs) {
    const TensorContent content(spec, seed);
    const Bytes size = SizeOf(spec);
    for (Bytes offset; offset < size; offset += Bytes(piece.size())) {
      const auto length = static_cast<size_t>(std::min(Bytes(kPieceBytes), size - offset).count());
      content.Fill(offset, std::as_writable_bytes(std::span(piece.data(), length)));
      out.Write(std::string_view(piece).substr(0, length));
    }
  }
  out.Close();
}

void WriteShardedSafetensors(const std::string& path, const std::vector<TensorSpec>& specs,
                             size_t shards, uint64_t seed) {
  TENURE_CHECK(shards >= 1 && shards <= specs.size());
  std::filesystem::create_directories(path);
  Bytes left;
  for (const TensorSpec& spec : specs) left += SizeOf(spec);

  std::vector<std::pair<std::string, std::string>> weight_map;
  std::vector<TensorSpec> in_shard;
  size_t shard = 0;
  Bytes size;
  for (size_t i = 0; i < specs.size(); ++i) {
    in_shard.push_back(specs[i]);
    weight_map.emplace_back(specs[i].name, ShardName(shard, shards));
    size += SizeOf(specs[i]);
    // A shard ends when it has its part of what is left, or when the others need one tensor each.
    const size_t tensors_left = specs.size() - i - 1;
    const size_t shards_left = shards - shard;
    const bool has_its_part = size >= Bytes(left.count() / shards_left);
    if (tensors_left == 0 ||
        (shards_left > 1 && (has_its_part || tensors_left == shards_left - 1))) {
      WriteSafetensors(path + "/" + ShardName(shard, shards), in_shard, seed);
      in_shard.clear();
      left -= size;
      size = Bytes(0);
      ++shard;
    }
  }
  OutputFile index(path + "/model.safetensors.index.json");
  index.Write(ShardIndex(weight_map));
  index.Close();
}

std::string ShardIndex(const std::vector<std::pair<std::string, std::string>>& weight_map) {
  std::string index = "{\"metadata\":{},\"weight_map\":{";
  for (size_t i = 0; i < weight_map.size(); ++i) {
    absl::StrAppend(&index, i > 0 ? "," : "", "\n", Quoted(weight_map[i].first), ":",
                    Quoted(weight_map[i].second));
  }
  return index + "\n}}\n";
}

}  // namespace tenure
