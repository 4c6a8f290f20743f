#include "tenure/weight_lease.h"

#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/weight_lease_impl.h"

namespace tenure::client {

WeightLease::WeightLease(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WeightLease::WeightLease(WeightLease&& other) noexcept = default;

WeightLease& WeightLease::operator=(WeightLease&& other) noexcept {
  if (this != &other) {
    Release().IgnoreError();
    impl_ = std::move(other.impl_);
  }
  return *this;
}

WeightLease::~WeightLease() { Release().IgnoreError(); }

bool WeightLease::valid() const {
  return impl_ != nullptr && !impl_->connection->forked() &&
         impl_->connection->session().Valid(*impl_->held);
}

std::string WeightLease::lost_reason() const {
  if (impl_ == nullptr) return std::string(kReleased);
  if (impl_->connection->forked()) return std::string(kForked);
  return valid() ? std::string() : impl_->held->lost_reason();
}

absl::Status WeightLease::Release() {
  if (impl_ == nullptr) return absl::OkStatus();
  const std::unique_ptr<Impl> impl = std::move(impl_);
  return impl->connection->Release(*impl->held);
}

uint64_t WeightLease::lease_id() const { return impl_->held->lease_id(); }
const std::string& WeightLease::name() const { return impl_->name; }
uint64_t WeightLease::revision() const { return impl_->revision; }
const std::string& WeightLease::device() const { return impl_->device; }
uint64_t WeightLease::region_id() const { return impl_->held->region_id(); }
uint64_t WeightLease::generation() const { return impl_->generation; }
const std::string& WeightLease::architecture_key() const { return impl_->architecture_key; }
MemoryKind WeightLease::memory_kind() const { return impl_->held->memory_kind(); }
const std::string& WeightLease::device_uuid() const { return impl_->held->device_uuid(); }

std::optional<int> WeightLease::cuda_ordinal() const {
  return impl_->mapping == nullptr ? std::nullopt : impl_->mapping->cuda_ordinal();
}

const std::byte* WeightLease::base() const { return impl_->base; }
uint64_t WeightLease::size_bytes() const { return impl_->held->region_bytes(); }

absl::Status WeightLease::CopyToHost(uint64_t offset, std::span<std::byte> into) const {
  TENURE_CLIENT_RETURN_IF_ERROR(impl_->connection->forked() ? impl_->connection->Usable()
                                                            : absl::OkStatus());
  if (impl_->mapping != nullptr) return impl_->mapping->CopyToHost(offset, into);
  if (offset == 0 && into.empty()) return absl::OkStatus();
  return absl::OutOfRangeError("the region has no bytes");
}

std::optional<Tensor> WeightLease::Find(std::string_view tensor_name) const {
  const TensorPlace* place = impl_->tensors->Find(tensor_name);
  if (place == nullptr) return std::nullopt;
  return At(*place);
}

size_t WeightLease::tensor_count() const { return impl_->tensors->size(); }

Tensor WeightLease::tensor(size_t index) const { return At((*impl_->tensors)[index]); }

Tensor WeightLease::At(const TensorPlace& place) const {
  return {place.name,
          place.dtype,
          place.shape,
          {impl_->base + place.offset, place.bytes},
          place.offset};
}

}  // namespace tenure::client
