#include "client/cli/refusal_causes.h"

#include <array>
#include <ostream>

namespace tenure::cli {
namespace {

struct Cause {
  std::string_view reason;
  std::string_view cause;
  std::string_view remedy;
};

constexpr std::array<Cause, 5> kCauses = {{
    {"CAPACITY", "it is more than the arena has",
     "ask beforehand with `tenurectl fit`; give the arena more (devices: weights, runtime), take a"
     " larger device, or smaller batches"},
    {"HELD_BY_LEASES", "others hold the room",
     "`tenurectl models` and `sessions` tell who; unload idle models, or let them make way by"
     " themselves (weights.idle_unload_after); `tenurectl leaks` finds what was forgotten"},
    {"FRAGMENTED", "there are bytes enough, but not side by side",
     "release the buffers beside the hole that the refusal names; keep io apart from activations"
     " with kinds, and what belongs to one request in a scope"},
    {"RECLAIM_PENDING", "the bytes are on their way back, and the call did not wait for them",
     "give the call a later deadline; clients that compute for long without answering cost"
     " recall_wait each time: `tenurectl events --kind RECALL_UNANSWERED`"},
    {"BACKEND", "the device has less than the daemon was promised",
     "look for other programs with nvidia-smi, and for stranded bytes with `tenurectl arenas`; give"
     " the daemon a share that leaves them theirs (devices: total)"},
}};

}  // namespace

void PrintCauses(std::ostream& out, std::string_view reason) {
  out << "The usual causes, and what to do:\n";
  for (const Cause& cause : kCauses) {
    out << (cause.reason == reason ? "> " : "  ") << cause.reason << ": " << cause.cause << ".\n"
        << "      " << cause.remedy << ".\n";
  }
}

}  // namespace tenure::cli
