#include "tests/bench/bench_model.h"

#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/base/check.h"
#include "tests/client/lease_bytes.h"
#include "tests/support/model_generator.h"
#include "tests/support/safetensors_writer.h"

namespace tenure::bench {
namespace {

Bytes SizeOf(const TensorSpec& spec) {
  const StatusOr<Bytes> size = TensorBytes(spec);
  TENURE_CHECK(size.ok());
  return *size;
}

std::string Written(std::string path, const std::vector<TensorSpec>& specs, uint64_t seed) {
  WriteSafetensors(path, specs, seed);
  return path;
}

Bytes PayloadStart(std::span<const std::byte> file) {
  uint64_t header = 0;
  memcpy(&header, file.data(), sizeof(header));
  return Bytes(sizeof(header) + header);
}

}  // namespace

std::vector<TensorSpec> BenchModel::Specs(Bytes payload) {
  std::vector<TensorSpec> specs =
      GenerateModel({.architecture = Architecture::kMoe, .target = payload - MiB(1)});
  TENURE_CHECK(specs.size() == 297);
  specs.push_back({"adapter.scale", DType::kF32, {1024}});
  specs.push_back({"adapter.shift", DType::kF32, {1024}});
  Bytes left = payload;
  for (const TensorSpec& spec : specs) left -= SizeOf(spec);
  specs.push_back({"adapter.table", DType::kU8, {left.count()}});
  return specs;
}

BenchModel::BenchModel(std::string name, std::string path, const std::vector<TensorSpec>& specs,
                       uint64_t seed)
    : name_(std::move(name)),
      path_(Written(std::move(path), specs, seed)),
      specs_(specs),
      file_(path_),
      start_(PayloadStart(file_.view())) {}

void BenchModel::Check(const WeightLease& lease) const {
  Bytes offset = start_;
  for (const TensorSpec& spec : specs_) {
    const Bytes size = SizeOf(spec);
    const std::optional<client::Tensor> tensor = lease.Find(spec.name);
    if (!tensor || Bytes(tensor->bytes.size()) != size ||
        !Shows(lease, tensor->offset, file_.view().subspan(offset.count(), size.count()))) {
      throw std::runtime_error("a lease on " + name_ + " has other bytes in " + spec.name);
    }
    offset += size;
  }
  if (lease.tensor_count() != specs_.size()) throw std::runtime_error("tensors too many");
}

}  // namespace tenure::bench
