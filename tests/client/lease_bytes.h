#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tenure/client.h"

namespace tenure {

// Whether the region shows these bytes from `offset` on: in place where the CPU can look, else in
// pieces. Throws std::runtime_error if they cannot be read.
inline bool Shows(const WeightLease& lease, uint64_t offset, std::span<const std::byte> expected) {
  if (lease.memory_kind() == MemoryKind::kHost) {
    return expected.empty() || memcmp(lease.base() + offset, expected.data(), expected.size()) == 0;
  }
  constexpr size_t kPiece = size_t{4} << 20;
  std::vector<std::byte> piece(std::min(kPiece, expected.size()));
  for (size_t at = 0; at < expected.size(); at += piece.size()) {
    piece.resize(std::min(piece.size(), expected.size() - at));
    const absl::Status read = lease.CopyToHost(offset + at, piece);
    if (!read.ok()) throw std::runtime_error(read.ToString());
    if (memcmp(piece.data(), expected.data() + at, piece.size()) != 0) return false;
  }
  return true;
}

}  // namespace tenure
