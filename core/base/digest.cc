#include "core/base/digest.h"

#define XXH_INLINE_ALL
#include <cstdio>
#include <xxhash.h>

namespace tenure {
namespace {

Digest128 FromXxh(XXH128_hash_t hash) { return {.high = hash.high64, .low = hash.low64}; }

}  // namespace

struct Digester::State {
  XXH3_state_t xxh;
};

std::string Digest128::ToHex() const {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text.data();
}

Digest128 DigestOf(std::span<const std::byte> bytes) {
  return FromXxh(XXH3_128bits(bytes.data(), bytes.size()));
}

Digester::Digester() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }

Digester::~Digester() = default;

void Digester::Add(uint64_t value) { XXH3_128bits_update(&state_->xxh, &value, sizeof(value)); }

void Digester::Add(std::string_view text) {
  Add(text.size());
  XXH3_128bits_update(&state_->xxh, text.data(), text.size());
}

Digest128 Digester::Finish() const { return FromXxh(XXH3_128bits_digest(&state_->xxh)); }

}  // namespace tenure
