#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/units.h"

namespace tenure {

// What a Buffer is for. Each kind has a part of the Pool of its own, so that what outlives a
// request does not cut up what does not.
enum class BufferKind { kActivation, kWorkspace, kIo };
inline constexpr std::array kAllBufferKinds = {BufferKind::kActivation, BufferKind::kWorkspace,
                                               BufferKind::kIo};
// "activation", ...
std::string_view BufferKindName(BufferKind kind);

// Every Buffer's offset and size is a multiple of it.
inline constexpr Bytes kBufferGranule = Bytes(256);
// No request asks for more: sums of sizes stay far from the end of their range.
inline constexpr Bytes kMostBytes = Bytes(uint64_t{1} << 48);
// No Buffer can ask for more: where Segments meet, this is what is sure.
inline constexpr Bytes kMostAlignment = MiB(2);

// What is asked for. Valid: `size` is positive, `alignment` a power of two up to kMostAlignment.
struct BufferSpec {
  Bytes size;
  Bytes alignment = kBufferGranule;
  BufferKind kind = BufferKind::kActivation;
  // Its Session may keep it unused, and gives it back when it is asked for memory.
  bool may_be_idle = false;
};

// A part of a Pool, at an offset that stays.
struct Buffer {
  BufferId id;
  Range place;  // in the Pool; as granted, at least what was asked for
  Bytes requested;
  BufferKind kind = BufferKind::kActivation;
};

}  // namespace tenure
