#pragma once

// 128-bit digests (XXH3). They identify, they do not authenticate: whoever matches a digest
// compares the things themselves where a collision would do harm.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tenure {

struct Digest128 {
  uint64_t high = 0;
  uint64_t low = 0;

  // 32 lower-case hexadecimal digits.
  std::string ToHex() const;
  friend auto operator<=>(const Digest128&, const Digest128&) = default;
};

Digest128 DigestOf(std::span<const std::byte> bytes);

// Digests a sequence of fields. Every field is framed (strings by their length), so that no two
// different sequences feed the same bytes. Thread-compatible.
class Digester {
 public:
  Digester();
  ~Digester();
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;

  void Add(uint64_t value);
  void Add(std::string_view text);
  Digest128 Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenure

template <>
struct std::hash<tenure::Digest128> {
  size_t operator()(const tenure::Digest128& digest) const noexcept { return digest.low; }
};
