#pragma once

#include <cstdint>

namespace tenure::client {

// What a buffer is for. Each kind has a part of the pool of its own, so that buffers that outlive a
// request do not cut up those that do not.
enum class BufferKind : uint8_t {
  kActivation,  // results of one layer for the next ones
  kWorkspace,   // scratch memory of one operator
  kIo,          // inputs and outputs, which may outlive the request
};

}  // namespace tenure::client

namespace tenure {
using client::BufferKind;
}  // namespace tenure
