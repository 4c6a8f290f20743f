#include "core/checkpoint/safetensors.h"

#include <absl/container/flat_hash_set.h>
#include <algorithm>
#include <array>

#include "core/checkpoint/json_events.h"

namespace tenure {
namespace {

constexpr size_t kMaxNameBytes = 4096;
constexpr size_t kMaxExtents = 256;

class HeaderReader : public JsonEvents<HeaderReader> {
 public:
  explicit HeaderReader(Bytes payload) : payload_(payload) {}

  std::vector<HeaderEntry>& entries() { return entries_; }
  // The first tensor of a dtype that we do not know. Reported only when all else is right, because
  // a broken file is not a file of a later format.
  const Status& unsupported() const { return unsupported_; }

  bool OnObject() {
    switch (state_) {
      case State::kStart:
        state_ = State::kNames;
        return true;
      case State::kEntry:
        state_ = State::kFields;
        entry_.spec.shape.clear();
        fields_ = 0;
        return true;
      case State::kMetadata:
        state_ = State::kMetadataKeys;
        return true;
      default:
        return RefuseValue();
    }
  }

  bool OnKey(const std::string& key) {
    switch (state_) {
      case State::kNames:
        return OnName(key);
      case State::kFields:
        return OnField(key);
      default:
        state_ = State::kMetadataText;
        return metadata_keys_.insert(key).second ||
               Refuse(RefuseTensor("duplicate key in __metadata__", key));
    }
  }

  bool OnObjectEnd() {
    if (state_ == State::kFields) return OnEntryEnd();
    state_ = state_ == State::kMetadataKeys ? State::kNames : State::kEnd;
    return true;
  }

  bool OnArray() {
    if (state_ == State::kShape) {
      state_ = State::kExtents;
    } else if (state_ == State::kOffsets) {
      state_ = State::kOffsetPair;
      offset_count_ = 0;
    } else {
      return RefuseValue();
    }
    return true;
  }

  bool OnArrayEnd() {
    if (state_ == State::kOffsetPair && offset_count_ != 2) return RefuseValue();
    state_ = State::kFields;
    return true;
  }

  bool OnUnsigned(uint64_t value) {
    if (state_ == State::kExtents) {
      if (entry_.spec.shape.size() == kMaxExtents)
        return Refuse(RefuseTensor("shape of over 256 extents in tensor", name()));
      entry_.spec.shape.push_back(value);
      return true;
    }
    if (state_ != State::kOffsetPair || offset_count_ == 2) return RefuseValue();
    offsets_[offset_count_++] = value;
    return true;
  }

  bool OnString(const std::string& text) {
    if (state_ == State::kMetadataText) {
      state_ = State::kMetadataKeys;
      return true;
    }
    if (state_ != State::kDtype) return RefuseValue();
    const std::optional<DType> dtype = ParseDType(text);
    known_dtype_ = dtype.has_value();
    if (known_dtype_) {
      entry_.spec.dtype = *dtype;
    } else {
      unknown_dtype_ = text;
    }
    state_ = State::kFields;
    return true;
  }

  bool OnNull() {
    // The reference reads null metadata as none.
    if (state_ != State::kMetadata) return RefuseValue();
    state_ = State::kNames;
    return true;
  }

  bool OnOther() { return RefuseValue(); }

 private:
  // What the next event belongs to.
  enum class State {
    kStart,
    kNames,
    kEntry,
    kFields,
    kDtype,
    kShape,
    kExtents,
    kOffsets,
    kOffsetPair,
    kMetadata,
    kMetadataKeys,
    kMetadataText,
    kEnd,
  };
  enum Field : unsigned { kHasDtype = 1, kHasShape = 2, kHasOffsets = 4, kHasAll = 7 };

  bool OnName(const std::string& name) {
    if (name == "__metadata__") {
      if (has_metadata_) return Refuse("duplicate key: __metadata__");
      has_metadata_ = true;
      state_ = State::kMetadata;
      return true;
    }
    if (name.size() > kMaxNameBytes)
      return Refuse(RefuseTensor("tensor name over 4096 bytes", name));
    entry_.spec.name = name;
    state_ = State::kEntry;
    return true;
  }

  bool OnField(const std::string& name) {
    if (name == "dtype") return Expect(kHasDtype, State::kDtype);
    if (name == "shape") return Expect(kHasShape, State::kShape);
    if (name == "data_offsets") return Expect(kHasOffsets, State::kOffsets);
    // The reference ignores other fields too.
    SkipValue();
    return true;
  }

  bool Expect(Field field, State state) {
    if ((fields_ & field) != 0)
      return Refuse(RefuseTensor("duplicate key in the entry of tensor", name()));
    fields_ |= field;
    state_ = state;
    return true;
  }

  bool OnEntryEnd() {
    if ((fields_ & kHasDtype) == 0) return Refuse(RefuseTensor("no dtype for tensor", name()));
    if ((fields_ & kHasShape) == 0) return Refuse(RefuseTensor("no shape for tensor", name()));
    if ((fields_ & kHasOffsets) == 0)
      return Refuse(RefuseTensor("no data_offsets for tensor", name()));
    if (offsets_[0] > offsets_[1])
      return Refuse(RefuseTensor("data ends before it begins in tensor", name()));
    entry_.range = Range(Bytes(offsets_[0]), Bytes(offsets_[1]));
    if (entry_.range.end() > payload_) {
      return Refuse(RefuseTensor("data reaches beyond the end of the file in tensor", name()));
    }
    if (known_dtype_) {
      const StatusOr<Bytes> size = TensorBytes(entry_.spec);
      if (!size.ok())
        return Refuse(RefuseTensor("no possible size for dtype and shape of tensor", name()));
      if (*size != entry_.range.size()) {
        return Refuse(RefuseTensor("data_offsets do not match dtype and shape of tensor", name()));
      }
    } else if (unsupported_.ok()) {
      const std::string tensor = ShownName(name());
      const std::string dtype = ShownName(unknown_dtype_);
      unsupported_ = Error(Reason::kUnsupportedDtype,
                           absl::StrCat("dtype is not supported: ", dtype, ", of tensor: ", tensor),
                           {{"tensor", tensor}, {"dtype", dtype}});
    }
    entries_.push_back(std::move(entry_));
    state_ = State::kNames;
    return true;
  }

  // Explains a value of the wrong kind by where it stands.
  bool RefuseValue() {
    switch (state_) {
      case State::kEntry:
        return Refuse(RefuseTensor("the entry is not an object, of tensor", name()));
      case State::kDtype:
        return Refuse(RefuseTensor("dtype is not a string in tensor", name()));
      case State::kShape:
      case State::kExtents:
        return Refuse(
            RefuseTensor("shape is not an array of non-negative integers in tensor", name()));
      case State::kOffsets:
      case State::kOffsetPair:
        return Refuse(
            RefuseTensor("data_offsets are not two non-negative integers in tensor", name()));
      case State::kMetadata:
      case State::kMetadataText:
        return Refuse("__metadata__ does not map strings to strings");
      default:
        return Refuse("the header is not an object");
    }
  }

  const std::string& name() const { return entry_.spec.name; }

  const Bytes payload_;
  State state_ = State::kStart;
  std::vector<HeaderEntry> entries_;
  absl::flat_hash_set<std::string> metadata_keys_;
  bool has_metadata_ = false;
  Status unsupported_;

  // The entry being read.
  HeaderEntry entry_;
  unsigned fields_ = 0;
  bool known_dtype_ = false;
  std::string unknown_dtype_;
  std::array<uint64_t, 2> offsets_{};
  size_t offset_count_ = 0;
};

Status CheckNamesDiffer(const std::vector<HeaderEntry>& entries) {
  absl::flat_hash_set<std::string_view> names;
  names.reserve(entries.size());
  for (const HeaderEntry& entry : entries) {
    if (!names.insert(entry.spec.name).second)
      return RefuseTensor("duplicate tensor", entry.spec.name);
  }
  return absl::OkStatus();
}

// Sorts the entries by where they lie and checks that they follow one another from 0 to `payload`.
// Tensors without bytes may lie between others, not within.
Status CheckCoverage(std::vector<HeaderEntry>& entries, Bytes payload) {
  const auto lies_before = [](const HeaderEntry& a, const HeaderEntry& b) {
    if (a.range.begin() != b.range.begin()) return a.range.begin() < b.range.begin();
    return a.range.end() < b.range.end();
  };
  if (!std::is_sorted(entries.begin(), entries.end(), lies_before)) {
    std::sort(entries.begin(), entries.end(), lies_before);
  }
  Bytes covered;
  for (const HeaderEntry& entry : entries) {
    if (entry.range.begin() < covered)
      return RefuseTensor("data overlaps another's in tensor", entry.spec.name);
    if (entry.range.begin() > covered)
      return RefuseTensor("hole in the data before tensor", entry.spec.name);
    covered = entry.range.end();
  }
  if (covered == payload) return absl::OkStatus();
  if (entries.empty()) return Error(Reason::kInvalidCheckpoint, "data without a tensor");
  return RefuseTensor("data after the last tensor", entries.back().spec.name);
}

}  // namespace

StatusOr<std::vector<HeaderEntry>> ParseSafetensorsHeader(std::string_view json, Bytes payload) {
  if (json.empty() || json.front() != '{') {
    return Error(Reason::kInvalidCheckpoint, "the header does not begin with '{'");
  }
  HeaderReader reader(payload);
  TENURE_RETURN_IF_ERROR(ReadJson(json, reader));
  TENURE_RETURN_IF_ERROR(CheckNamesDiffer(reader.entries()));
  TENURE_RETURN_IF_ERROR(CheckCoverage(reader.entries(), payload));
  TENURE_RETURN_IF_ERROR(reader.unsupported());
  return std::move(reader.entries());
}

}  // namespace tenure
