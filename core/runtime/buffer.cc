#include "core/runtime/buffer.h"

#include "core/base/check.h"

namespace tenure {

std::string_view BufferKindName(BufferKind kind) {
  switch (kind) {
    case BufferKind::kActivation:
      return "activation";
    case BufferKind::kWorkspace:
      return "workspace";
    case BufferKind::kIo:
      return "io";
  }
  TENURE_CHECK(false);
}

}  // namespace tenure
