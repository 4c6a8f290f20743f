#pragma once

// What the daemon says of models. Plain values: thread-compatible, copied freely. Sizes are in
// bytes.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/export.h"

namespace tenure::client {

// What a model's memory is doing.
enum class ModelState {
  kUnspecified,  // no memory is held: the model was only validated
  kLoading,      // bytes are on their way; no lease yet
  kActive,       // can be leased
  kDraining,     // offline, but leases still live; no new ones
  kRetained,     // offline; the bytes are kept for a while
  kEmpty,        // a load failed half way: the layout is kept, the content is gone
  kLost,         // the device is gone, and the content with it
  kGone,         // the memory is no longer this model's; only a watch tells it
};

// "loading", "active", ...
TENURE_CLIENT_API std::string_view ModelStateName(ModelState state);

// Who holds something, as it named itself.
struct Holder {
  uint64_t session_id = 0;
  std::string program;
  std::string instance;
  uint32_t lease_count = 0;
  // It can still read memory that it has no lease on any more.
  bool quarantined = false;
};

// A model and the memory it has.
struct Model {
  std::string name;
  uint64_t revision = 0;
  ModelState state = ModelState::kUnspecified;
  std::string device;            // "host:0"
  std::string path;              // canonical, as the daemon sees it
  std::string architecture_key;  // equal keys: the same tensors at the same offsets
  std::string content_id;        // empty when the content is gone
  uint64_t region_id = 0;
  uint64_t generation = 0;  // grows each time the region's content may change
  uint32_t tensor_count = 0;
  uint64_t tensor_bytes = 0;
  uint64_t region_bytes = 0;  // the tensors and the padding between and after them
  bool pinned = false;
  std::vector<Holder> holders;
  // How long the bytes are still kept; only while retained or empty, unless kept for ever.
  std::optional<std::chrono::nanoseconds> expires_in;
};

// How far a load is.
struct LoadProgress {
  std::string stage;  // "open", "parse", "place", "read" or "publish"
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
  double bytes_per_second = 0;
};

// A model at one moment of a watch.
struct ModelEvent {
  Model model;
  std::optional<LoadProgress> progress;  // only while it loads
  std::string error;                     // why its load failed; else empty
};

// One tensor and its place in the region.
struct TensorPlace {
  std::string name;
  std::string dtype;            // "F32": the file format's own name
  std::vector<uint64_t> shape;  // empty: one element
  uint64_t offset = 0;          // from the region's base, in bytes
  uint64_t bytes = 0;
};

}  // namespace tenure::client
