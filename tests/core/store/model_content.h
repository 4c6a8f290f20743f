#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include "core/layout/layout.h"
#include "core/store/device_store.h"
#include "tests/support/safetensors_writer.h"

namespace tenure {

// A Region's Segments, mapped as a client maps them. Move-only. Thread-compatible.
class MappedShare {
 public:
  // REQUIRES: the batch is all of the Region.
  explicit MappedShare(const ShareExport& batch) : share_(batch.share) {
    TENURE_CHECK(batch.fds.size() == batch.segment_count);
    for (size_t i = 0; i < batch.fds.size(); ++i) {
      const size_t size = batch.sizes[i].count();
      void* const base = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, batch.fds[i].get(), 0);
      TENURE_CHECK(base != MAP_FAILED);
      parts_.emplace_back(static_cast<const std::byte*>(base), size);
    }
  }
  MappedShare(MappedShare&&) = default;
  MappedShare& operator=(MappedShare&&) = delete;
  ~MappedShare() {
    for (const auto& part : parts_) ::munmap(const_cast<std::byte*>(part.data()), part.size());
  }

  RegionId region() const { return share_.region; }
  ShareSerial serial() const { return share_.serial; }

  std::vector<std::byte> Read(Range range) const {
    std::vector<std::byte> bytes;
    Bytes begin;
    for (const auto& part : parts_) {
      const Bytes end = begin + Bytes(part.size());
      const Bytes first = std::max(begin, range.begin());
      const Bytes last = std::min(end, range.end());
      if (first < last) {
        const auto piece = part.subspan((first - begin).count(), (last - first).count());
        bytes.insert(bytes.end(), piece.begin(), piece.end());
      }
      begin = end;
    }
    return bytes;
  }

 private:
  const Share share_;
  std::vector<std::span<const std::byte>> parts_;
};

// What a model written with `specs` and `seed` holds.
class ModelContent {
 public:
  ModelContent(const std::vector<TensorSpec>& specs, uint64_t seed) : layout_(*Layout::Of(specs)) {
    for (const TensorSpec& spec : layout_.specs()) tensors_.push_back(ContentOf(spec, seed));
  }

  const Layout& layout() const { return layout_; }

  // True if the Region holds every tensor at its place.
  bool IsIn(const MappedShare& share) const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (share.Read(layout_.places()[i]) != tensors_[i]) return false;
    }
    return true;
  }

 private:
  Layout layout_;
  std::vector<std::vector<std::byte>> tensors_;
};

}  // namespace tenure
