#pragma once

// Where leased memory lies, and how it may be read.

#include <string_view>

#include "tenure/export.h"

namespace tenure::client {

enum class MemoryKind {
  kHost,  // of the machine: any code reads through the addresses
  kCuda,  // of a CUDA device: kernels and copies of that device read through them, the CPU must not
};

// "host", "cuda".
TENURE_CLIENT_API std::string_view MemoryKindName(MemoryKind kind);

}  // namespace tenure::client

namespace tenure {
using client::MemoryKind;
}  // namespace tenure
