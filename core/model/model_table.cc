#include "core/model/model_table.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <cctype>
#include <tuple>

#include "core/base/check.h"

namespace tenure {
namespace {

constexpr size_t kMaxNameLength = 128;

bool InOrder(const Model* a, const Model* b) {
  return std::tie(a->name, a->revision, a->region) < std::tie(b->name, b->revision, b->region);
}

}  // namespace

Status CheckModelName(std::string_view name) {
  const auto letter_or_digit = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
  const auto allowed = [&](char c) {
    return letter_or_digit(c) || c == '.' || c == '_' || c == '-' || c == '/';
  };
  if (!name.empty() && name.size() <= kMaxNameLength && letter_or_digit(name.front()) &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return Error(
      Reason::kInvalidRequest,
      "a model's name has 1 to 128 letters, digits, '.', '_', '-' or '/', and begins with a "
      "letter or digit");
}

Revision ModelTable::RevisionFor(std::string_view name, const ContentId& content) const {
  const auto found = names_.find(name);
  if (found == names_.end()) return Revision(1);
  const Name& known = found->second;
  if (known.last_revision.valid() && known.last_content == content) return known.last_revision;
  return Revision(known.last_revision.value() + 1);
}

void ModelTable::Assign(Model model) {
  ClearCurrent(model.region);
  models_.insert_or_assign(model.region, std::move(model));
}

void ModelTable::SetCurrent(RegionId region, const ContentId& content) {
  Model& model = models_.at(region);
  Name& name = names_[model.name];
  name.last_revision = model.revision;
  name.last_content = content;
  name.current = region;
}

void ModelTable::ClearCurrent(RegionId region) {
  const auto model = models_.find(region);
  if (model == models_.end()) return;
  const auto name = names_.find(model->second.name);
  if (name != names_.end() && name->second.current == region) name->second.current.reset();
}

void ModelTable::Erase(RegionId region) {
  ClearCurrent(region);
  models_.erase(region);
}

const Model* ModelTable::OfRegion(RegionId region) const {
  const auto found = models_.find(region);
  return found == models_.end() ? nullptr : &found->second;
}

std::string ModelTable::FullNameOf(RegionId region) const {
  const Model& model = models_.at(region);
  return absl::StrCat(model.name, "@", model.revision.value());
}

const Model* ModelTable::Current(std::string_view name) const {
  const auto found = names_.find(name);
  if (found == names_.end() || !found->second.current.has_value()) return nullptr;
  return OfRegion(*found->second.current);
}

const Model* ModelTable::Find(std::string_view name, Revision revision) const {
  for (const Model* model : Named(name)) {
    if (model->revision == revision) return model;
  }
  return nullptr;
}

std::vector<const Model*> ModelTable::Named(std::string_view name) const {
  std::vector<const Model*> named;
  for (const auto& [region, model] : models_) {
    if (model.name == name) named.push_back(&model);
  }
  std::sort(named.begin(), named.end(), InOrder);
  return named;
}

std::vector<const Model*> ModelTable::All() const {
  std::vector<const Model*> all;
  all.reserve(models_.size());
  for (const auto& [region, model] : models_) all.push_back(&model);
  std::sort(all.begin(), all.end(), InOrder);
  return all;
}

}  // namespace tenure
