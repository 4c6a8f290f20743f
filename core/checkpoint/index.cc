#include "core/checkpoint/index.h"

#include <absl/container/flat_hash_set.h>
#include <algorithm>
#include <limits.h>

#include "core/checkpoint/json_events.h"

namespace tenure {
namespace {

using WeightMap = std::vector<std::pair<std::string, std::string>>;

// A name that leads nowhere but to an entry of the directory it is looked up in.
bool IsPlainFileName(std::string_view name) {
  const auto is_separator_or_control = [](char c) {
    return c == '/' || static_cast<unsigned char>(c) < 0x20;
  };
  return !name.empty() && name.size() <= NAME_MAX && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), is_separator_or_control);
}

class IndexReader : public JsonEvents<IndexReader> {
 public:
  WeightMap& weight_map() { return weight_map_; }

  bool OnObject() {
    if (state_ != State::kStart && state_ != State::kWeightMap) return RefuseValue();
    state_ = state_ == State::kStart ? State::kTop : State::kTensors;
    return true;
  }

  bool OnKey(const std::string& key) {
    if (state_ == State::kTensors) {
      weight_map_.emplace_back(key, std::string());
      state_ = State::kShard;
      return true;
    }
    if (key != "weight_map") {
      SkipValue();
      return true;
    }
    if (has_weight_map_) return Refuse("duplicate key in the index: weight_map");
    has_weight_map_ = true;
    state_ = State::kWeightMap;
    return true;
  }

  bool OnObjectEnd() {
    state_ = state_ == State::kTensors ? State::kTop : State::kEnd;
    return true;
  }

  bool OnString(const std::string& text) {
    if (state_ != State::kShard) return RefuseValue();
    auto& [tensor, shard] = weight_map_.back();
    if (!IsPlainFileName(text)) {
      return Refuse(
          RefuseTensor("the index names a shard by no plain file name, for tensor", tensor));
    }
    shard = text;
    state_ = State::kTensors;
    return true;
  }

  bool OnArray() { return RefuseValue(); }
  bool OnArrayEnd() { return RefuseValue(); }
  bool OnUnsigned(uint64_t) { return RefuseValue(); }
  bool OnNull() { return RefuseValue(); }
  bool OnOther() { return RefuseValue(); }

 private:
  // What the next event belongs to.
  enum class State { kStart, kTop, kWeightMap, kTensors, kShard, kEnd };

  bool RefuseValue() {
    if (state_ == State::kShard) {
      return Refuse(RefuseTensor("the index maps to something else than a string tensor",
                                 weight_map_.back().first));
    }
    return Refuse(state_ == State::kWeightMap ? "weight_map of the index is not an object"
                                              : "the index is not an object");
  }

  State state_ = State::kStart;
  bool has_weight_map_ = false;
  WeightMap weight_map_;
};

}  // namespace

StatusOr<WeightMap> ParseShardIndex(std::string_view json) {
  IndexReader reader;
  TENURE_RETURN_IF_ERROR(ReadJson(json, reader));
  if (reader.weight_map().empty()) {
    return Error(Reason::kInvalidCheckpoint, "the index has no weight_map, or an empty one");
  }
  absl::flat_hash_set<std::string_view> names;
  for (const auto& [tensor, shard] : reader.weight_map()) {
    if (!names.insert(tensor).second) {
      return RefuseTensor("the index names a tensor twice", tensor);
    }
  }
  return std::move(reader.weight_map());
}

}  // namespace tenure
