#include "core/store/parsed_model.h"

#include <absl/strings/str_cat.h>
#include <span>
#include <utility>

namespace tenure {
namespace {

// Everything that the result of ParseModel comes from: the sizes of the files, their headers and
// the index.
std::string HeadersOf(const OpenCheckpoint& checkpoint) {
  std::string headers;
  for (const Shard& shard : checkpoint.shards) {
    absl::StrAppend(&headers, shard.stat.size.count(), " ", shard.header.size(), " ", shard.header);
  }
  absl::StrAppend(&headers, checkpoint.index);
  return headers;
}

}  // namespace

StatusOr<ParsedModel> ParseModel(const OpenCheckpoint& checkpoint) {
  TENURE_ASSIGN_OR_RETURN(const std::vector<TensorSource> tensors, ParseTensors(checkpoint));
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const TensorSource& tensor : tensors) specs.push_back(tensor.spec);
  TENURE_ASSIGN_OR_RETURN(Layout layout, Layout::Of(std::move(specs)));

  std::vector<ParsedModel::Source> sources;
  sources.reserve(tensors.size());
  for (const TensorSource& tensor : tensors) {
    if (tensor.range.empty()) continue;
    sources.push_back({.shard = tensor.shard,
                       .offset = tensor.range.begin(),
                       .target = layout.places()[layout.Find(tensor.spec.name)]});
  }
  return ParsedModel{.layout = std::move(layout), .sources = std::move(sources)};
}

StatusOr<std::shared_ptr<const ParsedModel>> ParsedModels::Parse(const OpenCheckpoint& checkpoint) {
  std::string headers = HeadersOf(checkpoint);
  const Digest128 digest = DigestOf(std::as_bytes(std::span(headers)));
  if (std::shared_ptr<const ParsedModel> known = Find(headers, digest)) return known;
  TENURE_ASSIGN_OR_RETURN(ParsedModel parsed, ParseModel(checkpoint));
  auto model = std::make_shared<const ParsedModel>(std::move(parsed));
  Keep(std::move(headers), digest, model);
  return model;
}

Bytes ParsedModels::kept() const {
  const MutexLock lock(mutex_);
  return kept_;
}

std::shared_ptr<const ParsedModel> ParsedModels::Find(const std::string& headers,
                                                      Digest128 digest) {
  const MutexLock lock(mutex_);
  const auto found = by_digest_.find(digest);
  if (found == by_digest_.end() || found->second->headers != headers) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->model;
}

void ParsedModels::Keep(std::string headers, Digest128 digest,
                        std::shared_ptr<const ParsedModel> model) {
  const Bytes size(headers.size());
  const MutexLock lock(mutex_);
  if (size > limit_ || by_digest_.contains(digest)) return;
  while (kept_ + size > limit_) {
    kept_ -= Bytes(entries_.back().headers.size());
    by_digest_.erase(entries_.back().digest);
    entries_.pop_back();
  }
  entries_.push_front({.headers = std::move(headers), .digest = digest, .model = std::move(model)});
  by_digest_.emplace(digest, entries_.begin());
  kept_ += size;
}

}  // namespace tenure
