#pragma once

// Writes checkpoints for tests and examples. Everything here throws std::runtime_error if the disk
// refuses.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/layout/tensor_spec.h"

namespace tenure {

// The bytes that the writer gives a tensor: pseudo-random, a function of seed, name and dtype
// alone, and reachable at any offset. Floating-point elements are small finite numbers, so that
// models made of them can be computed with. Thread-safe.
class TensorContent {
 public:
  TensorContent(const TensorSpec& spec, uint64_t seed);

  // Fills `into` with the bytes from `offset` of the tensor on.
  void Fill(Bytes offset, std::span<std::byte> into) const;

 private:
  uint64_t Word(uint64_t index) const;

  uint64_t key_ = 0;
  uint64_t keep_ = 0;  // bits of each 64-bit word that stay random
  uint64_t set_ = 0;   // bits of each 64-bit word that are one
};

// All bytes of a tensor. REQUIRES: the spec has a size.
std::vector<std::byte> ContentOf(const TensorSpec& spec, uint64_t seed);

// The JSON text of a valid header: the tensors one after another in the order given.
std::string SafetensorsHeader(const std::vector<TensorSpec>& specs);

// The bytes of a small file: length of `header`, `header`, `payload`, whether that makes sense or
// not.
std::string RawSafetensors(std::string_view header, std::string_view payload);

// Writes a valid file, its header padded with spaces to a multiple of 8 bytes as the reference
// does. Streams: memory stays small for any size. REQUIRES: every spec has a size.
void WriteSafetensors(const std::string& path, const std::vector<TensorSpec>& specs, uint64_t seed);

// Writes the directory `path` (made if missing): `shards` files named
// model-00001-of-0000N.safetensors with about as many bytes each, and model.safetensors.index.json.
// A tensor has the same bytes however many shards there are. REQUIRES: 1 <= shards <= specs.size().
void WriteShardedSafetensors(const std::string& path, const std::vector<TensorSpec>& specs,
                             size_t shards, uint64_t seed);

// The JSON text of an index that maps each tensor to the shard beside it.
std::string ShardIndex(const std::vector<std::pair<std::string, std::string>>& weight_map);

}  // namespace tenure
