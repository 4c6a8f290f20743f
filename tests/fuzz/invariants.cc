#include "tests/fuzz/invariants.h"

#include <algorithm>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/layout/layout.h"

namespace tenure {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostMessage = 5000;  // 24 names of 128 bytes, a path, and what is said about them

Json TreeOf(std::string_view text) {
  Json tree = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  TENURE_CHECK(tree.is_object());
  return tree;
}

void CheckLayout(std::vector<TensorSpec> specs, Bytes bytes) {
  const StatusOr<Layout> layout = Layout::Of(std::move(specs));
  if (!layout.ok()) {
    TENURE_CHECK(HasReason(layout.status(), Reason::kInvalidCheckpoint));
    TENURE_CHECK(bytes > GiB(uint64_t{1} << 31));
    return;
  }
  TENURE_CHECK(layout->tensor_bytes() == bytes);
  Bytes end;
  for (size_t i = 0; i < layout->specs().size(); ++i) {
    const Range place = layout->places()[i];
    TENURE_CHECK(place.size() == *TensorBytes(layout->specs()[i]));
    TENURE_CHECK((place.begin() % layout->alignment()).zero());
    TENURE_CHECK(place.begin() >= end);
    if (!place.empty()) end = place.end();
  }
  TENURE_CHECK(layout->total() == end);
}

}  // namespace

void CheckRefusal(const Status& status, std::string_view named) {
  TENURE_CHECK(HasReason(status, Reason::kInvalidCheckpoint) ||
               HasReason(status, Reason::kUnsupportedDtype) ||
               HasReason(status, Reason::kFileNotFound));
  const std::string message(status.message());
  TENURE_CHECK(message.find(named) != std::string::npos);
  TENURE_CHECK(message.size() <= kMostMessage);
  TENURE_CHECK(std::none_of(message.begin(), message.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  }));
}

void CheckEntries(std::string_view header, const std::vector<HeaderEntry>& entries, Bytes begin,
                  Bytes end) {
  const Json tree = TreeOf(header);
  TENURE_CHECK(tree.size() - tree.count("__metadata__") == entries.size());
  std::set<std::string_view> names;
  Bytes covered = begin;
  for (const HeaderEntry& entry : entries) {
    TENURE_CHECK(names.insert(entry.spec.name).second);
    TENURE_CHECK(tree.contains(entry.spec.name));
    const Json& node = tree[entry.spec.name];
    TENURE_CHECK(node["dtype"] == std::string(DTypeName(entry.spec.dtype)));
    TENURE_CHECK(node["shape"] == Json(entry.spec.shape));
    const Json offsets = {(entry.range.begin() - begin).count(),
                          (entry.range.end() - begin).count()};
    TENURE_CHECK(node["data_offsets"] == offsets);
    TENURE_CHECK(entry.range.size() == *TensorBytes(entry.spec));
    TENURE_CHECK(entry.range.begin() == covered);
    covered = entry.range.end();
  }
  TENURE_CHECK(covered == end);
}

void CheckTensors(const OpenCheckpoint& checkpoint, const std::vector<TensorSource>& tensors) {
  std::set<std::string_view> names;
  std::vector<std::vector<Range>> ranges(checkpoint.shards.size());
  std::vector<TensorSpec> specs;
  uint64_t bytes = 0;
  for (const TensorSource& tensor : tensors) {
    TENURE_CHECK(names.insert(tensor.spec.name).second);
    TENURE_CHECK(tensor.shard < checkpoint.shards.size());
    const Shard& shard = checkpoint.shards[tensor.shard];
    TENURE_CHECK(tensor.range.begin() >= shard.payload_begin);
    TENURE_CHECK(tensor.range.end() <= shard.stat.size);
    TENURE_CHECK(tensor.range.size() == *TensorBytes(tensor.spec));
    if (!tensor.range.empty()) ranges[tensor.shard].push_back(tensor.range);
    if (__builtin_add_overflow(bytes, tensor.range.size().count(), &bytes)) bytes = UINT64_MAX;
    specs.push_back(tensor.spec);
  }
  for (std::vector<Range>& of_shard : ranges) {
    std::sort(of_shard.begin(), of_shard.end(),
              [](const Range& a, const Range& b) { return a.begin() < b.begin(); });
    for (size_t i = 1; i < of_shard.size(); ++i) {
      TENURE_CHECK(of_shard[i - 1].end() <= of_shard[i].begin());
    }
  }
  CheckLayout(std::move(specs), Bytes(bytes));
}

void CheckWeightMap(std::string_view index, const std::vector<TensorSource>& tensors) {
  const Json tree = TreeOf(index);
  const auto weight_map = tree["weight_map"].get<std::map<std::string, std::string>>();
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map) shards.insert(shard);
  TENURE_CHECK(tensors.size() == weight_map.size());
  for (const TensorSource& tensor : tensors) {
    const auto mapped = weight_map.find(tensor.spec.name);
    TENURE_CHECK(mapped != weight_map.end());
    const auto place = std::distance(shards.begin(), shards.find(mapped->second));
    TENURE_CHECK(static_cast<size_t>(place) == tensor.shard);
  }
}

}  // namespace tenure
