#include "tests/e2e/model_image.h"

#include <cstdint>
#include <fcntl.h>
#include <optional>
#include <stdexcept>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utility>

#include "core/base/unique_fd.h"
#include "tests/client/lease_bytes.h"

namespace tenure {

ModelImage::ModelImage(const std::string& path, std::vector<TensorSpec> specs)
    : specs_(std::move(specs)) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat file {};
  if (fstat(fd.get(), &file) != 0) throw std::runtime_error("cannot open " + path);
  const auto size = static_cast<size_t>(file.st_size);
  void* const base = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  view_ = {static_cast<const std::byte*>(base), size};
}

ModelImage::~ModelImage() {
  if (!view_.empty()) munmap(const_cast<std::byte*>(view_.data()), view_.size());
}

ModelImage::ModelImage(ModelImage&& other) noexcept
    : specs_(std::move(other.specs_)), view_(std::exchange(other.view_, {})) {}

std::string ModelImage::Difference(const WeightLease& lease) const {
  if (lease.tensor_count() != specs_.size()) return "another number of tensors";
  uint64_t header = 0;
  memcpy(&header, view_.data(), sizeof(header));
  uint64_t offset = sizeof(header) + header;
  for (const TensorSpec& spec : specs_) {
    const std::optional<client::Tensor> tensor = lease.Find(spec.name);
    if (!tensor || tensor->bytes.size() > view_.size() - offset ||
        !Shows(lease, tensor->offset, view_.subspan(offset, tensor->bytes.size()))) {
      return spec.name + " has other bytes";
    }
    offset += tensor->bytes.size();
  }
  return offset == view_.size() ? std::string() : "another size";
}

}  // namespace tenure
