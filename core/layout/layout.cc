#include "core/layout/layout.h"

#include <absl/strings/str_cat.h>
#include <algorithm>

namespace tenure {
namespace {

// Goes into every key: raised when the rule that places tensors changes.
constexpr uint64_t kLayoutVersion = 1;
constexpr Bytes kMaxTotal = Bytes(uint64_t{1} << 62);

bool NameLess(const TensorSpec& a, const TensorSpec& b) { return a.name < b.name; }

ArchitectureKey KeyOf(const std::vector<TensorSpec>& specs, Bytes alignment) {
  Digester digester;
  digester.Add(kLayoutVersion);
  digester.Add(alignment.count());
  digester.Add(specs.size());
  for (const TensorSpec& spec : specs) {
    digester.Add(spec.name);
    digester.Add(DTypeName(spec.dtype));
    digester.Add(spec.shape.size());
    for (const uint64_t extent : spec.shape) digester.Add(extent);
  }
  return {digester.Finish()};
}

}  // namespace

StatusOr<Layout> Layout::Of(std::vector<TensorSpec> specs, Bytes alignment) {
  if (!std::is_sorted(specs.begin(), specs.end(), NameLess)) {
    std::sort(specs.begin(), specs.end(), NameLess);
  }
  Layout layout;
  layout.alignment_ = alignment;
  layout.places_.reserve(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (i > 0 && specs[i].name == specs[i - 1].name) {
      return Error(Reason::kInvalidCheckpoint,
                   absl::StrCat("two tensors of one name: ", specs[i].name),
                   {{"tensor", specs[i].name}});
    }
    TENURE_ASSIGN_OR_RETURN(const Bytes size, TensorBytes(specs[i]));
    const Bytes begin = AlignUp(layout.total_, alignment);
    if (size > kMaxTotal || begin + size > kMaxTotal) {
      return Error(Reason::kInvalidCheckpoint,
                   absl::StrCat("the model exceeds 2^62 bytes at tensor: ", specs[i].name),
                   {{"tensor", specs[i].name}});
    }
    layout.places_.emplace_back(begin, begin + size);
    layout.tensor_bytes_ += size;
    if (!size.zero()) layout.total_ = begin + size;
  }
  layout.key_ = KeyOf(specs, alignment);
  layout.specs_ = std::move(specs);
  return layout;
}

size_t Layout::Find(std::string_view name) const {
  const auto found = std::lower_bound(
      specs_.begin(), specs_.end(), name,
      [](const TensorSpec& spec, std::string_view wanted) { return spec.name < wanted; });
  if (found == specs_.end() || found->name != name) return specs_.size();
  return static_cast<size_t>(found - specs_.begin());
}

bool Layout::SameArchitecture(const Layout& other) const {
  return key_ == other.key_ && alignment_ == other.alignment_ && specs_ == other.specs_;
}

}  // namespace tenure
