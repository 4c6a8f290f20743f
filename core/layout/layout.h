#pragma once

#include <vector>

#include "core/base/digest.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/layout/tensor_spec.h"

namespace tenure {

// Equal keys mean equal Layouts. Specs are compared all the same before memory is handed over.
struct ArchitectureKey {
  Digest128 digest;
  friend auto operator<=>(const ArchitectureKey&, const ArchitectureKey&) = default;
};

inline constexpr Bytes kDefaultAlignment = Bytes(256);

// Where each tensor of a model lies in its Region: the canonical order (names bytewise ascending),
// each tensor at the next multiple of the alignment after the last one; a tensor without bytes has
// an empty Place. The same set of specs gives the same Layout, whatever order it came in.
// Immutable.
//
//   total = end of the last Place that has bytes, tensor_bytes = sum of the Places' sizes,
//   total >= tensor_bytes
class Layout {
 public:
  // REQUIRES: `alignment` is a power of two.
  // INVALID_CHECKPOINT for two specs of one name, a spec whose size overflows (see TensorBytes), or
  // a total beyond 2^62 bytes.
  static StatusOr<Layout> Of(std::vector<TensorSpec> specs, Bytes alignment = kDefaultAlignment);

  // In canonical order.
  const std::vector<TensorSpec>& specs() const { return specs_; }
  // places()[i] is where specs()[i] lies, relative to the Region's base.
  const std::vector<Range>& places() const { return places_; }
  Bytes alignment() const { return alignment_; }
  Bytes total() const { return total_; }
  Bytes tensor_bytes() const { return tensor_bytes_; }
  const ArchitectureKey& key() const { return key_; }

  // The index of the tensor named `name` in specs() and places(), or specs().size().
  size_t Find(std::string_view name) const;

  // True if both place the same tensors at the same offsets: the keys and the specs are equal.
  bool SameArchitecture(const Layout& other) const;

 private:
  Layout() = default;

  std::vector<TensorSpec> specs_;
  std::vector<Range> places_;
  Bytes alignment_;
  Bytes total_;
  Bytes tensor_bytes_;
  ArchitectureKey key_;
};

}  // namespace tenure

template <>
struct std::hash<tenure::ArchitectureKey> {
  size_t operator()(const tenure::ArchitectureKey& key) const noexcept {
    return std::hash<tenure::Digest128>()(key.digest);
  }
};
