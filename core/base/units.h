#pragma once

// Units as types: byte counts and half-open byte ranges. A bare integer never means bytes in an
// interface of this project.

#include <compare>
#include <cstdint>
#include <string>

#include "core/base/check.h"

namespace tenure {

// A count of bytes, 0 to 2^64-1. Arithmetic that would leave that range is a bug of the caller and
// CHECKed; sizes that come from outside are checked before they become Bytes.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(uint64_t count) : count_(count) {}

  constexpr uint64_t count() const { return count_; }
  constexpr bool zero() const { return count_ == 0; }

  constexpr Bytes& operator+=(Bytes other) {
    TENURE_CHECK(count_ <= UINT64_MAX - other.count_);
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    TENURE_CHECK(count_ >= other.count_);
    count_ -= other.count_;
    return *this;
  }

  friend constexpr Bytes operator+(Bytes a, Bytes b) { return a += b; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return a -= b; }
  friend constexpr Bytes operator*(Bytes a, uint64_t n) {
    TENURE_CHECK(n == 0 || a.count_ <= UINT64_MAX / n);
    return Bytes(a.count_ * n);
  }
  friend constexpr uint64_t operator/(Bytes a, Bytes b) { return a.count_ / b.count_; }
  friend constexpr Bytes operator%(Bytes a, Bytes b) { return Bytes(a.count_ % b.count_); }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;

 private:
  uint64_t count_ = 0;
};

constexpr Bytes KiB(uint64_t n) { return Bytes(n << 10); }
constexpr Bytes MiB(uint64_t n) { return Bytes(n << 20); }
constexpr Bytes GiB(uint64_t n) { return Bytes(n << 30); }

// The part of `whole` that lies above `part`, or zero.
constexpr Bytes SaturatingSub(Bytes whole, Bytes part) {
  return whole > part ? whole - part : Bytes(0);
}

// REQUIRES: `alignment` is a power of two.
constexpr Bytes AlignUp(Bytes value, Bytes alignment) {
  const uint64_t mask = alignment.count() - 1;
  TENURE_CHECK(alignment.count() != 0 && (alignment.count() & mask) == 0);
  return Bytes((value + Bytes(mask)).count() & ~mask);
}

// REQUIRES: `alignment` is a power of two.
constexpr Bytes AlignDown(Bytes value, Bytes alignment) {
  const uint64_t mask = alignment.count() - 1;
  TENURE_CHECK(alignment.count() != 0 && (alignment.count() & mask) == 0);
  return Bytes(value.count() & ~mask);
}

// The half-open interval [begin, end) of byte offsets. Invariant: begin <= end.
class Range {
 public:
  constexpr Range() = default;
  // REQUIRES: begin <= end.
  constexpr Range(Bytes begin, Bytes end) : begin_(begin), end_(end) { TENURE_CHECK(begin <= end); }

  constexpr Bytes begin() const { return begin_; }
  constexpr Bytes end() const { return end_; }
  constexpr Bytes size() const { return end_ - begin_; }
  constexpr bool empty() const { return begin_ == end_; }
  friend constexpr bool operator==(Range, Range) = default;

 private:
  Bytes begin_;
  Bytes end_;
};

// "64 MiB", "1.50 GiB", "300 B": for people, in messages and tables.
std::string FormatBytes(Bytes bytes);

}  // namespace tenure
